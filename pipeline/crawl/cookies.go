package crawl

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// cookies are those of a run. They are kept as marks in the scope of the run, by host, so that they survive the process
// and end with the run.
type cookies struct {
	*cookiejar.Jar
	marks store.Marks // nil: they are in memory only
	scope string
	log   *slog.Logger

	mu     sync.Mutex
	byHost map[string]map[string]setCookie // by name, domain and path
}

// setCookie is a Set-Cookie, and the request that it answered.
type setCookie struct {
	URL  string `json:"url"`
	Line string `json:"line"`
}

const cookieKey = "cookie/"

func newCookies() *cookies {
	jar, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // it never fails
	return &cookies{Jar: jar, byHost: map[string]map[string]setCookie{}}
}

// keep loads the cookies of a run, and keeps what comes.
func (c *cookies) keep(ctx context.Context, marks store.Marks, run string, log *slog.Logger) error {
	c.marks, c.scope, c.log = marks, scopeOf(run), log
	for m, err := range marks.ListMarks(ctx, c.scope, cookieKey) {
		if err != nil {
			return fmt.Errorf("read cookies: %w", err)
		}
		var known map[string]setCookie
		if err := json.Unmarshal(m.Value, &known); err != nil {
			return fmt.Errorf("the cookies of %s: %w", m.Key[len(cookieKey):], err)
		}
		c.byHost[m.Key[len(cookieKey):]] = known
		for _, s := range known {
			u, wrong := url.Parse(s.URL)
			cookie, bad := http.ParseSetCookie(s.Line)
			if wrong == nil && bad == nil {
				c.Jar.SetCookies(u, []*http.Cookie{cookie})
			}
		}
	}
	return nil
}

// SetCookies implements [http.CookieJar]. What has changed is stored before it returns.
func (c *cookies) SetCookies(u *url.URL, all []*http.Cookie) {
	c.Jar.SetCookies(u, all)
	if c.marks == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, changed := c.byHost[u.Host], false
	if known == nil {
		known = map[string]setCookie{}
		c.byHost[u.Host] = known
	}
	for _, cookie := range all {
		id := cookie.Name + ";" + cookie.Domain + ";" + cookie.Path
		if line := cookie.String(); line != "" && known[id].Line != line {
			known[id], changed = setCookie{u.Scheme + "://" + u.Host + u.EscapedPath(), line}, true
		}
	}
	if !changed {
		return
	}
	text, err := json.Marshal(known)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = c.marks.PutMarks(ctx, pawl.Mark{Scope: c.scope, Key: cookieKey + u.Host, Value: text, If: pawl.AnyVersion})
	}
	if err != nil {
		c.log.Warn("cookies are in memory only", "host", u.Host, "error", err)
	}
}
