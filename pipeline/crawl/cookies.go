package crawl

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// cookies are those of a run. They are kept as marks in the scope of the run, by registrable domain, so that they are
// shared by all processes, survive each, and end with the run.
type cookies struct {
	*cookiejar.Jar
	marks store.Shared // nil: they are in memory only
	scope string
	log   *slog.Logger

	mu       sync.Mutex
	byDomain map[string]*domainCookies
}

// domainCookies are those of a domain.
type domainCookies struct {
	version int64                // of the mark
	known   map[string]setCookie // by name, domain and path
}

// setCookie is a Set-Cookie, and the request that it answered.
type setCookie struct {
	URL  string `json:"url"`
	Line string `json:"line"`
}

const cookieKey = "cookie/"

func newCookies() *cookies {
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // it never fails
	return &cookies{Jar: jar, byDomain: map[string]*domainCookies{}}
}

// keep makes the cookies those of a run.
func (c *cookies) keep(marks store.Shared, run string, log *slog.Logger) {
	c.marks, c.scope, c.log = marks, scopeOf(run), log
}

// cookiesOf is the key of the mark with the cookies that a host may get.
func cookiesOf(u *url.URL) string { return cookieKey + domain(u.Hostname()) }

// learn adds cookies that other processes, or earlier ones, were given.
func (c *cookies) learn(m store.Marked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.merge(m)
}

func (c *cookies) merge(m store.Marked) {
	of := c.at(m.Key)
	if m.Version <= of.version {
		return
	}
	of.version = m.Version
	var known map[string]setCookie
	if err := json.Unmarshal(m.Value, &known); err != nil {
		c.log.Warn("cookies cannot be read", "domain", m.Key[len(cookieKey):], "error", err)
		return
	}
	for id, s := range known {
		u, wrong := url.Parse(s.URL)
		cookie, bad := http.ParseSetCookie(s.Line)
		if of.known[id] != s && wrong == nil && bad == nil {
			of.known[id] = s
			c.Jar.SetCookies(u, []*http.Cookie{cookie})
		}
	}
}

func (c *cookies) at(key string) *domainCookies {
	of := c.byDomain[key]
	if of == nil {
		of = &domainCookies{known: map[string]setCookie{}}
		c.byDomain[key] = of
	}
	return of
}

// SetCookies implements [http.CookieJar]. What has changed is stored before it returns.
func (c *cookies) SetCookies(u *url.URL, all []*http.Cookie) {
	c.Jar.SetCookies(u, all)
	if c.marks == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := map[string]setCookie{}
	of := c.at(cookiesOf(u))
	for _, cookie := range all {
		id := cookie.Name + ";" + cookie.Domain + ";" + cookie.Path
		if line := cookie.String(); line != "" && of.known[id].Line != line {
			fresh[id] = setCookie{u.Scheme + "://" + u.Host + u.EscapedPath(), line}
		}
	}
	if len(fresh) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.put(ctx, cookiesOf(u), of, fresh); err != nil {
		c.log.Warn("cookies are in memory only", "host", u.Host, "error", err)
	}
}

// put adds cookies to those that other processes put meanwhile.
func (c *cookies) put(ctx context.Context, key string, of *domainCookies, fresh map[string]setCookie) error {
	for {
		maps.Copy(of.known, fresh)
		text, err := json.Marshal(of.known)
		if err != nil {
			return err
		}
		receipts, err := c.marks.PutMarks(ctx, pawl.Mark{Scope: c.scope, Key: key, Value: text, If: of.version},
			changed(c.scope))
		if err == nil {
			err = receipts[0].Err
		}
		if err != nil {
			return err
		}
		if receipts[0].Put {
			of.version = receipts[0].Version
			return nil
		}
		found, err := c.marks.GetMarks(ctx, c.scope, key)
		if err != nil {
			return err
		}
		if m, there := found[key]; there {
			c.merge(m)
		} else {
			of.version = 0
		}
	}
}
