package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// Caller is a person that a program lets use the routes from inside its process, as the console does.
type Caller struct{ *caller }

// Person is a caller by name and role.
func Person(name, role string) (Caller, error) {
	may, known := roles[role]
	if !known || name == "" {
		return Caller{}, fmt.Errorf("api: there is no role %q for %q", role, name)
	}
	return Caller{&caller{name: name, may: may}}, nil
}

// Name is the name in the audit.
func (c Caller) Name() string { return c.name }

// May reports whether the caller may do all that a role may.
func (c Caller) May(role string) bool { return c.may&roles[role] == roles[role] }

// Whole reports whether the caller is for all topics.
func (c Caller) Whole() bool { return !c.narrowed() }

// Scope names the topics that the caller is for: those of one scope see the same.
func (c Caller) Scope() string { return strings.Join(c.topics, " ") }

// callerKey is the key of the caller in the context of a request from inside.
type callerKey struct{}

// Call carries out a request of c to the route at path, as if it had come in. The error is a [*Problem] if the route
// refuses it. An operator may append by hand.
func (a *API) Call(ctx context.Context, c Caller, method, path string, body []byte) (http.Header, []byte, error) {
	inside := *c.caller
	if inside.may&doOperate != 0 {
		inside.may |= doAppend
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, callerKey{}, &inside), method, a.config.BasePath+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, nil, malformed(err.Error())
	}
	r.Header.Set("Content-Type", jsonType)
	w := &kept{header: http.Header{}}
	a.ServeHTTP(w, r)
	if w.status < http.StatusMultipleChoices {
		return w.header, w.body.Bytes(), nil
	}
	p := &Problem{Status: w.status}
	if err := json.Unmarshal(w.body.Bytes(), p); err != nil {
		p.Title = http.StatusText(w.status)
	}
	return w.header, nil, p
}

// Letters yields up to limit of the dead letters that the parameters of GET /v1/dead select and c may see, complete: as
// `pawl dead export` writes them. An error is a [*Problem].
func (a *API) Letters(ctx context.Context, c Caller, filter url.Values, limit int) iter.Seq2[operate.Letter, error] {
	asked := &http.Request{URL: &url.URL{RawQuery: filter.Encode()}}
	x := &exchange{api: a, caller: c.caller, r: asked.WithContext(ctx)}
	return func(yield func(operate.Letter, error) bool) {
		f, err := (&query{exchange: x}).dead()
		d, missing := part[store.DeadLetters](x)
		if err = cmp.Or(err, missing); err != nil {
			yield(operate.Letter{}, x.problem(err))
			return
		}
		n := 0
		for l, err := range formed(x, d.Dead(ctx, f), operate.FormLetter) {
			if err != nil {
				yield(l, x.problem(err))
				return
			}
			if n++; !yield(l, nil) || n == limit {
				return
			}
		}
	}
}

// kept keeps an answer.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header         { return k.header }
func (k *kept) WriteHeader(status int)      { k.status = status }
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// errSession says that a session is none, or has ended.
var errSession = errors.New("api: the session has ended")

// Session seals a session of the holder of a token, for the host that r asks for, until a time. It ends earlier if the
// token does.
func (a *API) Session(r *http.Request, secret string, until time.Time) (string, error) {
	c := a.access.Load().token(secret)
	if c == nil {
		return "", unauthorized("the token is not known here")
	}
	if c.may&doRead == 0 {
		return "", forbidden("the role of this token does not read")
	}
	text := strconv.FormatInt(until.Unix(), 36) + "." + base64.RawURLEncoding.EncodeToString([]byte(c.name))
	seal, _, err := a.sessionSeal(r, text, c.name)
	return text + "." + seal, err
}

// sessionSeal is what only this program can write behind a session of a token that is valid now, and who has it.
func (a *API) sessionSeal(r *http.Request, text, name string) (string, *caller, error) {
	key, err := a.sealer.get(r.Context())
	if err != nil {
		return "", nil, err
	}
	known := a.access.Load().tokens
	for i := range known {
		if known[i].name == name {
			of := "session " + text + " " + strings.ToLower(r.Host) + " "
			sealed := appendMAC(nil, keyed(key), append([]byte(of), known[i].hash[:]...))
			return base64.RawURLEncoding.EncodeToString(sealed), &known[i].caller, nil
		}
	}
	return "", nil, errSession
}

// Caller finds out who makes r: by a session, by a token, by a proxy, or by being on this machine. A session that has
// ended, or is of another program on this host, is none.
func (a *API) Caller(r *http.Request, session string) (Caller, error) {
	if session != "" {
		if c, err := a.bySession(r, session); !errors.Is(err, errSession) {
			return Caller{c}, err
		}
	}
	x := &exchange{api: a, r: r}
	err := a.admit(x)
	return Caller{x.caller}, err
}

func (a *API) bySession(r *http.Request, session string) (*caller, error) {
	end := strings.LastIndexByte(session, '.')
	ends, name, _ := strings.Cut(session[:max(end, 0)], ".")
	until, err := strconv.ParseInt(ends, 36, 64)
	b, bad := base64.RawURLEncoding.DecodeString(name)
	if err != nil || bad != nil || time.Now().Unix() >= until {
		return nil, errSession
	}
	seal, c, err := a.sessionSeal(r, session[:end], string(b))
	if err == nil && !hmac.Equal([]byte(seal), []byte(session[end+1:])) {
		err = errSession
	}
	return c, err
}
