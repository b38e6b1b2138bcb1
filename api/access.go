package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// The roles that a token or a user of a proxy may have.
const (
	Producer = "producer" // appends
	Worker   = "worker"   // leases, extends, settles and appends
	Viewer   = "viewer"   // reads
	Operator = "operator" // reads, pauses, replays, cancels, edits
	Admin    = "admin"    // does all, settings and removal too
)

// action is what a route does.
type action uint8

const (
	doAppend action = 1 << iota
	doWork
	doRead
	doOperate
	doAdmin
	doAny action = 0 // any caller may
)

var roles = map[string]action{
	Producer: doAppend, Worker: doWork | doAppend, Viewer: doRead, Operator: doRead | doOperate,
	Admin: doAppend | doWork | doRead | doOperate | doAdmin,
}

// Access says who may do what.
type Access struct {
	Tokens []Token
	Proxy  Proxy
}

// Token lets a program in.
type Token struct {
	Name   string // in the audit
	Secret string
	Role   string
	Topics []string // names, or beginnings that end in *; none: all
}

// Proxy lets in users that a proxy has made sure of.
type Proxy struct {
	Trusted    []string          // addresses of proxies, as 127.0.0.1/32
	UserHeader string            // has the name of the user
	Roles      map[string]string // by user; "*" is any other
}

// Open reports whether a has neither tokens nor a proxy: then a door is for this machine only.
func (a *Access) Open() bool { return len(a.Tokens) == 0 && len(a.Proxy.Trusted) == 0 }

// access is Access as it is asked.
type access struct {
	open    bool
	tokens  []knownToken
	trusted []netip.Prefix
	header  string
	users   map[string]string
}

type knownToken struct {
	caller
	hash [sha256.Size]byte
}

// caller is who makes a request.
type caller struct {
	name   string
	may    action
	topics []string
}

func (a *Access) compile() (*access, error) {
	var faults pawl.Faults
	faults.About = "api: "
	c := &access{open: a.Open(), header: a.Proxy.UserHeader, users: a.Proxy.Roles}
	names := map[string]bool{}
	for _, t := range a.Tokens {
		may, known := roles[t.Role]
		faults.If(t.Name == "" || names[t.Name], "token %q: it needs a name of its own", t.Name)
		faults.If(len(t.Secret) < 8, "token %q: its secret has less than 8 characters", t.Name)
		faults.If(!known, "token %q: there is no role %q", t.Name, t.Role)
		names[t.Name] = true
		c.tokens = append(c.tokens, knownToken{caller{t.Name, may, t.Topics}, sha256.Sum256([]byte(t.Secret))})
	}
	for _, text := range a.Proxy.Trusted {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			one, failed := netip.ParseAddr(text)
			p, err = netip.PrefixFrom(one, one.BitLen()), failed
		}
		faults.If(err != nil, "proxy.trusted: %q is no address or network", text)
		c.trusted = append(c.trusted, p)
	}
	faults.If(len(c.trusted) > 0 && (c.header == "" || len(c.users) == 0),
		"a proxy needs the header that has the user, and roles")
	for user, role := range c.users {
		_, known := roles[role]
		faults.If(!known, "proxy.roles: %q has role %q, which there is not", user, role)
	}
	return c, faults.Err()
}

// admit finds out who makes a request. The error is the answer.
func (a *API) admit(x *exchange) error {
	r, c := x.r, a.access.Load()
	if inside, ok := r.Context().Value(callerKey{}).(*caller); ok {
		x.caller = inside
		return nil
	}
	if err := crossOrigin.Check(r); err != nil {
		return forbidden("a web page of another origin made this request")
	}
	if len(r.Header.Values("Authorization")) > 1 {
		return malformed("Authorization is given more than once")
	}
	if given := r.Header.Get("Authorization"); given != "" && !c.open {
		scheme, secret, _ := strings.Cut(given, " ")
		if x.caller = c.token(secret); x.caller != nil && strings.EqualFold(scheme, "Bearer") {
			return nil
		}
		return unauthorized("the token is not known here")
	}
	if c.open {
		return a.admitLocal(x)
	}
	users := r.Header.Values(c.header)
	if c.header == "" || len(users) == 0 || !c.trusts(addressIn(r.RemoteAddr)) {
		return unauthorized("there is no token")
	}
	role := cmp.Or(c.users[users[0]], c.users["*"])
	if len(users) > 1 || users[0] == "" || role == "" {
		return forbidden("the user has no role")
	}
	x.caller = &caller{name: users[0], may: roles[role]}
	return nil
}

var crossOrigin = http.NewCrossOriginProtection()

// token finds who has a secret, in a time that does not depend on how much of it is right.
func (c *access) token(secret string) *caller {
	hash := sha256.Sum256([]byte(secret))
	var found *caller
	for i := range c.tokens {
		if subtle.ConstantTimeCompare(hash[:], c.tokens[i].hash[:]) == 1 {
			found = &c.tokens[i].caller
		}
	}
	return found
}

func (c *access) trusts(at netip.Addr) bool {
	return slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(at) })
}

// From is the address that a request comes from. Proxies that are trusted add the one that they were asked from to
// X-Forwarded-For; what anybody else says there counts for nothing.
func (a *API) From(r *http.Request) string {
	at, c := addressIn(r.RemoteAddr), a.access.Load()
	if !at.IsValid() {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && c.trusts(at); i-- {
		next := addressIn(strings.TrimSpace(hops[i]))
		if !next.IsValid() {
			break
		}
		at = next
	}
	return at.String()
}

// addressIn reads an address, which may have a port; what is none is not valid.
func addressIn(text string) netip.Addr {
	both, err := netip.ParseAddrPort(text)
	at := both.Addr()
	if err != nil {
		at, _ = netip.ParseAddr(text) // the zero value is not valid
	}
	return at.Unmap().WithZone("")
}

// admitLocal lets programs of this machine in. A web page can point a name of its own at
// 127.0.0.1 (DNS rebinding): the request has to ask for this machine by its own names. What a proxy passes on comes
// from anywhere.
func (a *API) admitLocal(x *exchange) error {
	if !x.local() || !loopbackName(x.r.Host) {
		return forbidden("without tokens this door is for programs on this machine, which ask for localhost")
	}
	x.caller = &caller{name: "local", may: roles[Operator] | roles[Producer] | roles[Worker]}
	return nil
}

// local reports whether a program of this machine asks, for itself as far as one can see.
func (x *exchange) local() bool {
	at, _ := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback() &&
		!slices.ContainsFunc(ofProxies, func(name string) bool { return x.r.Header.Get(name) != "" })
}

// ofProxies are headers that a proxy adds.
var ofProxies = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// loopbackName reports whether a Host is a name of this machine for itself.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

func unauthorized(detail string) *Problem {
	return &Problem{Status: http.StatusUnauthorized, Title: "unauthorized", Detail: detail,
		Next: "send Authorization: Bearer TOKEN"}
}

// over reports whether the caller may do something in a topic.
func (c *caller) over(topic string) bool {
	return len(c.topics) == 0 || slices.ContainsFunc(c.topics, func(pattern string) bool {
		beginning, every := strings.CutSuffix(pattern, "*")
		return topic == pattern || every && strings.HasPrefix(topic, beginning)
	})
}

// narrowed reports whether the caller is for some topics only.
func (c *caller) narrowed() bool { return len(c.topics) > 0 }

// needTopic refuses a topic that is not the caller's.
func (x *exchange) needTopic(topics ...string) error {
	for _, t := range topics {
		if !x.caller.over(t) {
			return forbidden(fmt.Sprintf("topic %q is not of %s", t, x.caller.name))
		}
	}
	return nil
}

// needWhole refuses a caller that is for some topics only.
func (x *exchange) needWhole() error {
	if x.caller.narrowed() {
		return forbidden("this is about all topics, and the token is for some")
	}
	return nil
}
