package console

import (
	"crypto/rand"
	"hash/maphash"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/api"
)

// Bounds of what a browser may send.
const (
	maxForm   = 4 << 20
	smallForm = 64 << 10 // of those who are not logged in
	maxFields = 1000
	formTime  = time.Minute // for sending it
)

// guard sets the headers of every answer, and refuses what no page of the console asks for. It reports whether the
// request may go on.
func (k *Console) guard(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "the console takes GET and POST", http.StatusMethodNotAllowed)
		return false
	}
	if !sameOrigin(r) {
		http.Error(w, "this change was not asked for by a page of this console", http.StatusForbidden)
		return false
	}
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-www-form-urlencoded") {
		http.Error(w, "a form is sent as application/x-www-form-urlencoded", http.StatusUnsupportedMediaType)
		return false
	}
	if err := k.read(w, r); err != nil || len(r.PostForm) > maxFields {
		http.Error(w, "the form is malformed, too large or too slow", http.StatusRequestEntityTooLarge)
		return false
	}
	return true
}

// read reads a form. Large ones are for those who are logged in.
func (k *Console) read(w http.ResponseWriter, r *http.Request) error {
	most := int64(smallForm)
	if r.ContentLength < 0 || r.ContentLength > smallForm {
		if _, err := k.caller(r); err == nil {
			most = maxForm
		}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(formTime))       // a server of a program may have no such thing
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // nor this
	r.Body = http.MaxBytesReader(w, r.Body, most)
	return r.ParseForm()
}

// sameOrigin reports whether a page of the same origin made a request. Browsers tell by Sec-Fetch-Site or, from
// servers without TLS, by Origin; what tells neither is no browser, and has the API.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host != "" && strings.EqualFold(from.Host, r.Host)
}

// cookies of the console.
const (
	sessionCookie = "pawl_session"
	noteCookie    = "pawl_note"
	langCookie    = "pawl_lang"
	themeCookie   = "pawl_theme"
	sessionFor    = 12 * time.Hour
)

func (k *Console) cookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: k.config.BasePath + "/", HttpOnly: true, MaxAge: int(life.Seconds()),
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func cookieOf(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// caller finds out who makes a request.
func (k *Console) caller(r *http.Request) (api.Caller, error) {
	if k.config.Auth != nil {
		user, role := k.config.Auth(r)
		if role == "" {
			return api.Caller{}, &api.Problem{Status: http.StatusForbidden, Title: "forbidden", Detail: "you have no role here"}
		}
		return api.Person(user, role)
	}
	session := cookieOf(r, sessionCookie)
	if k.ended.has(session) {
		session = ""
	}
	return k.sites[0].api.Caller(r, session)
}

// ended are the sessions that were logged out of, until they would have ended by themselves.
type ended struct {
	mu    sync.Mutex
	known map[string]time.Time
}

func (e *ended) has(session string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.known[session].IsZero()
}

func (e *ended) add(session string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.known, func(_ string, until time.Time) bool { return now.After(until) })
	e.known[session] = now.Add(sessionFor)
}

// login shows the form of the login, and opens a session for the holder of a token.
func (k *Console) login(w http.ResponseWriter, r *http.Request) {
	v := k.view(w, r, k.sites[0], &page{path: "/login"})
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		v.render(http.StatusOK, "login", loginData{Back: local(r.URL.Query().Get("back"), k.config.BasePath)})
		return
	}
	back := local(r.PostForm.Get("back"), k.config.BasePath)
	from := network(k.sites[0].api.From(r))
	if wait := k.logins.try(from, time.Now()); wait > 0 {
		w.Header().Set("Retry-After", num(int64(wait/time.Second)+1))
		v.render(http.StatusTooManyRequests, "login",
			loginData{back, v.T("Too many failures: wait %s.", span(wait.Seconds()))})
		return
	}
	session, err := k.sites[0].api.Session(r, strings.TrimSpace(r.PostForm.Get("token")),
		time.Now().Add(sessionFor))
	if err != nil {
		v.render(http.StatusUnauthorized, "login", loginData{back, v.T("This token opens nothing here.")})
		return
	}
	k.logins.excuse(from, time.Now())
	k.cookie(w, r, sessionCookie, session, sessionFor)
	http.Redirect(w, r, back, http.StatusSeeOther)
}

type loginData struct{ Back, Why string }

func (k *Console) logout(w http.ResponseWriter, r *http.Request) {
	if _, err := k.caller(r); err == nil {
		k.ended.add(cookieOf(r, sessionCookie), time.Now())
	}
	k.cookie(w, r, sessionCookie, "", 0)
	http.Redirect(w, r, k.config.BasePath+"/login", http.StatusSeeOther)
}

// open opens the session of a link that works once.
func (k *Console) open(w http.ResponseWriter, r *http.Request) {
	secret := k.links.take(r.URL.Query().Get("key"), time.Now())
	r.URL.RawQuery = "" // no page repeats it
	session, err := k.sites[0].api.Session(r, secret, time.Now().Add(sessionFor))
	if err != nil {
		v := k.view(w, r, k.sites[0], &page{path: "/open"})
		v.render(http.StatusForbidden, "login", loginData{k.config.BasePath + "/", v.T("This link was used already, or is old.")})
		return
	}
	k.cookie(w, r, sessionCookie, session, sessionFor)
	http.Redirect(w, r, k.config.BasePath+"/", http.StatusSeeOther)
}

// prefer keeps the language and theme of a person.
func (k *Console) prefer(w http.ResponseWriter, r *http.Request) {
	const year = 365 * 24 * time.Hour
	if lang := r.PostForm.Get("lang"); lang == english || lang == zh {
		k.cookie(w, r, langCookie, lang, year)
	}
	if theme := r.PostForm.Get("theme"); theme == "light" || theme == "dark" || theme == "system" {
		k.cookie(w, r, themeCookie, theme, year)
	}
	http.Redirect(w, r, local(r.PostForm.Get("back"), k.config.BasePath), http.StatusSeeOther)
}

// slashes takes those of ids out of a path: they part nothing.
var slashes = strings.NewReplacer("%2f", "_", "%2F", "_")

// local is a path of the console that a form asks to go back to, or the first page.
func local(back, base string) string {
	u, err := url.Parse(back) // it takes no control characters
	if err != nil || u.Scheme != "" || strings.HasPrefix(back, "//") || strings.Contains(back, `\`) {
		return base + "/"
	}
	at, err := url.PathUnescape(slashes.Replace(u.EscapedPath()))
	if err != nil || strings.Contains(at, "//") || !strings.HasPrefix(at, base+"/") ||
		!strings.HasPrefix(path.Clean(at)+"/", base+"/") {
		return base + "/"
	}
	return back
}

// throttle slows down who guesses: after some failures each further one doubles the wait. Addresses share rows by a
// hash that only this process can compute, so that many addresses neither take memory nor push out the count of one.
type throttle struct {
	mu   sync.Mutex
	seed maphash.Seed
	rows [4096]failures
}

type failures struct {
	n     int
	until time.Time // when the next attempt may be made
}

const (
	freeFailures = 5
	longestWait  = time.Minute
	forgetAfter  = 15 * time.Minute
)

// try counts an attempt of an address, as a failure until excuse says otherwise, or returns how long it has to wait.
// So many attempts at the same time are not more than one after the other.
func (t *throttle) try(from string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.row(from)
	if wait := f.until.Sub(now); wait > 0 {
		return wait
	}
	if now.Sub(f.until) > forgetAfter {
		f.n = 0
	}
	f.until = now
	if f.n++; f.n >= freeFailures {
		f.until = now.Add(min(time.Second<<min(f.n-freeFailures, 10), longestWait))
	}
	return 0
}

// excuse takes back what try counted for one attempt. Failures before it stay: the holder of a token may be guessing
// another one.
func (t *throttle) excuse(from string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.row(from)
	f.n, f.until = max(f.n-1, 0), now
}

func (t *throttle) row(from string) *failures {
	return &t.rows[maphash.String(t.seed, from)%uint64(len(t.rows))]
}

// network is who is counted as one: an address, or of IPv6 the network that one host is given.
func network(from string) string {
	if a, err := netip.ParseAddr(from); err == nil && a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	return from
}

// links are links that work once.
type links struct {
	mu    sync.Mutex
	known map[string]link
}

type link struct {
	secret string
	until  time.Time
}

func (l *links) add(secret string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]link{}
	}
	key := rand.Text()
	l.known[key] = link{secret, now.Add(5 * time.Minute)}
	return key
}

func (l *links) take(key string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.known[key]
	delete(l.known, key)
	if now.After(found.until) {
		return ""
	}
	return found.secret
}
