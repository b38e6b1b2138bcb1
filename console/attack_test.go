package console

import (
	"context"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// TestChangesAreAskedForByTheConsole: no form, script or page of another origin changes anything.
func TestChangesAreAskedForByTheConsole(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{Body: []byte("x")})
	for name, set := range map[string]func(http.Header){
		"form of another site":  func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
		"same site":             func(h http.Header) { h.Set("Sec-Fetch-Site", "same-site") },
		"typed":                 func(h http.Header) { h.Set("Sec-Fetch-Site", "none"); h.Del("Origin") },
		"old browser":           func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "http://evil.test") },
		"sandbox":               func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "null") },
		"another port":          func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "http://pawl.test:81") },
		"no browser":            func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Del("Origin") },
		"says one, is another":  func(h http.Header) { h.Set("Origin", "http://evil.test") },
		"fetch with text/plain": func(h http.Header) { h.Set("Content-Type", "text/plain") },
		"fetch with JSON":       func(h http.Header) { h.Set("Content-Type", "application/json") },
		"multipart":             func(h http.Header) { h.Set("Content-Type", "multipart/form-data; boundary=x") },
	} {
		for _, path := range changes(t, r) {
			q := r.as(secretOf(api.Admin), http.MethodPost, "/console"+path, url.Values{"s:reason": {"evil"}})
			set(q.Header)
			if answer, _ := r.do(q); answer.StatusCode != http.StatusForbidden &&
				answer.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s: POST %s: %d", name, path, answer.StatusCode)
			}
		}
	}
	if stats := r.stats("mail"); stats.Paused != nil {
		t.Error("it was paused")
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		answer, _ := r.do(r.as(secretOf(api.Admin), method, "/console/do/v1/topics/mail/pause", nil))
		if answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, answer.StatusCode)
		}
	}
}

// stats are the figures of a topic.
func (r *rig) stats(topic string) store.TopicStats {
	r.t.Helper()
	topics, _ := store.As[store.Topics](r.store)
	all, err := topics.Stats(r.t.Context(), topic)
	if err != nil || len(all) != 1 {
		r.t.Fatal(all, err)
	}
	return all[0]
}

// TestTokensOfSomeTopics: the console shows the topics of a token, and no other one.
func TestTokensOfSomeTopics(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{Body: []byte("for you")})
	r.append("payroll", pawl.Message{Body: []byte("hidden-body"), ID: "hidden-id", Key: []byte("hidden-key")})
	if answer, _ := r.do(r.as("narrow-secret", http.MethodGet, "/console/dead", nil)); answer.Header.Get("Location") !=
		"/console/dead?topic=mail" {
		t.Error("the desk is not that of its topic:", answer.Status)
	}
	for _, path := range []string{"/", "/topics", "/messages", "/dead?topic=mail", "/send"} {
		body := r.get("narrow-secret", "/console"+path)
		if strings.Contains(body, "payroll") || strings.Contains(body, "hidden-") {
			t.Errorf("%s shows another topic", path)
		}
	}
	for _, path := range []string{"/topics/payroll", "/messages/hidden-id", "/messages/hidden-id/body", "/send?copy=hidden-id",
		"/dead?topic=payroll", "/messages?topic=payroll"} {
		answer, body := r.do(r.as("narrow-secret", http.MethodGet, "/console"+path, nil))
		if answer.StatusCode != http.StatusForbidden || strings.Contains(body, "hidden-body") {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
}

// TestWhatIsKeptIsOfTheSameTopics: a page that was read for one caller is not shown to another one of the same name,
// nor to a token that has lost a topic since.
func TestWhatIsKeptIsOfTheSameTopics(t *testing.T) {
	r := newRig(t, nil)
	r.append("payroll", pawl.Message{Body: []byte("hidden-body"), ID: "hidden-id"})
	r.append("mail", pawl.Message{Body: []byte("for you")})
	token := api.Token{Name: "nora", Secret: "nora-secret", Role: api.Viewer}
	proxy := api.Proxy{Trusted: []string{"192.0.2.1"}, UserHeader: "X-User", Roles: map[string]string{"*": api.Viewer}}
	page := func(secret string, topics ...string) string {
		token.Topics = topics
		if err := r.sites[0].api.SetAccess(api.Access{Tokens: []api.Token{token}, Proxy: proxy}); err != nil {
			t.Fatal(err)
		}
		q := r.as(secret, http.MethodGet, "/console/messages", nil)
		q.Header.Set("X-User", "nora")
		_, body := r.do(q)
		return body
	}
	for _, whole := range []string{page(""), page("nora-secret", "pay*", "mail")} {
		if !strings.Contains(whole, "hidden-body") {
			t.Error("it does not show what it may")
		}
	}
	if strings.Contains(page("nora-secret", "mail"), "hidden-body") {
		t.Error("it shows what was read for another caller")
	}
}

// TestTemplatesHaveNothingInline: the policy of pages forbids it, and browsers would report it.
func TestTemplatesHaveNothingInline(t *testing.T) {
	inline := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|javascript:|https?://[^"{ ]*\.(js|css)`)
	for name, text := range sources(t) {
		if strings.HasSuffix(name, ".html") && inline.MatchString(text) {
			t.Errorf("%s has %q", name, inline.FindString(text))
		}
		if regexp.MustCompile(`template\.(HTML|JS|CSS|URL|HTMLAttr|Srcset)\b`).MatchString(text) {
			t.Errorf("%s marks a text as safe", name)
		}
	}
	r := newRig(t, nil)
	answer, _ := r.do(r.as(secretOf(api.Viewer), http.MethodGet, "/console/", nil))
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'nonce-", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || answer.Header.Get("Cache-Control") != "no-store" {
		t.Error(policy, answer.Header)
	}
}

// TestAnotherHostOpensNothing: a web page can point a name of its own at the address of the console (DNS rebinding),
// and is of the same origin then. Nothing answers it: with tokens a session is of the host that it was opened at,
// without tokens a loopback name has to be asked for.
func TestAnotherHostOpensNothing(t *testing.T) {
	r, plan := furnished(t, nil)
	private, _ := targets(t, r)
	open, err := New(Config{Store: r.store, BasePath: "/console"})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	before := r.contents()
	local := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8470})
	for i := range private {
		for _, host := range []string{"evil.test", "evil.test:8470", "127.0.0.1.evil.test", "pawl.test.evil.test", ""} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for live pages
			q := r.by(api.Admin, &private[i], plan).WithContext(context.WithValue(ctx, http.LocalAddrContextKey, local))
			q.Host = host
			q.Header.Set("Origin", "http://"+host)
			answer, _ := r.do(q)
			toLogin := strings.HasPrefix(answer.Header.Get("Location"), "/console/login?")
			if answer.StatusCode != http.StatusForbidden && !(answer.StatusCode == http.StatusSeeOther && toLogin) {
				t.Errorf("with tokens: %s %s of %q: %d", q.Method, q.URL.Path, host, answer.StatusCode)
			}
			q.Header.Del("Cookie")
			w := httptest.NewRecorder()
			if open.ServeHTTP(w, q); w.Code != http.StatusForbidden {
				t.Errorf("without tokens: %s %s of %q: %d", q.Method, q.URL.Path, host, w.Code)
			}
			cancel()
		}
	}
	if r.contents() != before {
		t.Error("something was changed")
	}
	for _, host := range []string{"127.0.0.1:8470", "localhost", "[::1]:8470"} {
		q := r.as("", http.MethodGet, "/console/topics", nil)
		q = q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		q.Host = host
		w := httptest.NewRecorder()
		if open.ServeHTTP(w, q); w.Code != http.StatusOK {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
}

func TestNothingIsOutsideOfTheConsole(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"/console/static/../console.go", "/console/static/..%2fconsole.go",
		"/console/static/%2e%2e/static.go", "/console/../v1/topics", "/console/do/v1/../../v1/topics", "/console/static/",
		"/console/do/v1/lease", "/etc/passwd", "/console/@nowhere/", "/console/runbook/..%2f..%2fguarantees",
		"/console/runbook/%2e%2e%2f%2e%2e%2fguarantees", "/console/runbook/../../guarantees", "/console/runbook/runbook.go",
		"/console/runbook/runbook.go%00", "/console/runbook/%2fetc%2fpasswd", `/console/runbook/..\..\guarantees`,
		`/console/static/..\console.go`, "/console/static/console.css%00", "/console/static/.", "/console/runbook/."} {
		if answer, body := r.do(r.as(secretOf(api.Admin), http.MethodGet, path, nil)); answer.StatusCode < 300 ||
			strings.Contains(body, "package console") {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
	for _, path := range []string{"/console/do/v1/lease", "/console/do/v1/settle", "/console/do/v1/nothing",
		"/console/do/v1/topics/%2e%2e/pause", "/console/do/"} {
		if answer, _ := r.do(r.as(secretOf(api.Admin), http.MethodPost, path, nil)); answer.StatusCode < 300 {
			t.Errorf("POST %s: %d", path, answer.StatusCode)
		}
	}
}

// hostileBacks are where no form may lead to.
var hostileBacks = []string{"//evil.test", "///evil.test", "////evil.test/", `/\evil.test`, `\\evil.test`, `\/evil.test`,
	`/\/evil.test`, "https://evil.test", "https:evil.test", "http:/evil.test", "https:/evil.test", "http:console/", "//",
	"/console/..//evil.test", "/console/../..//evil.test", "/console//evil.test", "/console/../evil", "/console/%2e%2e/evil",
	"/console/.%2e/%2e./evil", `/console/..\evil`, "/console/..%5cevil", "%2f%2fevil.test", "/%2f%2fevil.test",
	"/%5cevil.test", "/%09/evil.test", "/\t/evil.test", "\t//evil.test", " //evil.test", "/\r\n/evil.test", "\x01//evil.test",
	"/console/\r\nSet-Cookie: x=y", "/console/\r\n\r\n<script>", "/console/%0d%0aSet-Cookie:x", "javascript:alert(1)",
	"JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "//user@evil.test/console/",
	"http://pawl.test@evil.test/console/", "/console@evil.test/", "/consoleevil/", "@evil.test", ".evil.test", "?//evil.test",
	"#//evil.test", "/console/.", "/console/..", "/.//evil.test", "/./\\evil.test", "//[::1]/", "/console/@us/../..//evil.test",
	"\u3000//evil.test", "／／evil.test", "/console", ""}

// leads is where a browser goes from a page of the console: it takes \ for /, and drops tabs and ends of lines.
func leads(t *testing.T, to string) *url.URL {
	t.Helper()
	to = strings.TrimFunc(to, func(r rune) bool { return r <= ' ' })
	to = strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/", "%2e", ".", "%2E", ".").Replace(to)
	here, err := url.Parse("http://pawl.test/console/login")
	if err != nil {
		t.Fatal(err)
	}
	there, err := here.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return there
}

// destinations are where an answer leads, at once or by its buttons and forms.
func destinations(w *httptest.ResponseRecorder) []string {
	backs := regexp.MustCompile(`(?:name="back" value|class="button" href)="([^"]*)"`)
	links := append(w.Header()["Location"], w.Header()["Hx-Redirect"]...)
	for _, m := range backs.FindAllStringSubmatch(w.Body.String(), -1) {
		links = append(links, html.UnescapeString(m[1]))
	}
	return links
}

// TestNobodyIsSentElsewhere sends what is no page of the console as the page to go back to, by every form that takes
// one.
func TestNobodyIsSentElsewhere(t *testing.T) {
	for _, base := range []string{"/console", "", "/pawl/console"} {
		r, _ := furnished(t, nil)
		r.config.BasePath = base
		k, err := New(r.config)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for _, back := range hostileBacks {
			back = strings.ReplaceAll(back, "/console", base)
			forms := map[string]url.Values{"/login": {"token": {secretOf(api.Admin)}}, "/prefer": {"lang": {"en"}},
				"/logout": {}, "/do/v1/topics/mail/pause": {}, "/commands/x.put": {}, "/dead/plan": {"kind": {"replay"}},
				"/login?" + url.Values{"back": {back}}.Encode(): nil}
			for path, form := range forms {
				for _, header := range []string{"Location", "HX-Redirect"} {
					method := http.MethodGet
					if form != nil {
						method = http.MethodPost
						form.Set("back", back)
					}
					q := r.as(secretOf(api.Admin), method, base+path, form)
					if header == "HX-Redirect" {
						q.Header.Set("HX-Request", "true")
					}
					w := httptest.NewRecorder()
					k.ServeHTTP(w, q)
					links := destinations(w)
					if len(links) == 0 {
						t.Errorf("%s leads nowhere: %d", path, w.Code)
					}
					for _, to := range links {
						there := leads(t, to)
						inside := there.Scheme+there.Host == "httppawl.test" && strings.HasPrefix(there.Path+"/", base+"/")
						if !inside || strings.ContainsAny(to, "\r\n\t") || len(w.Header()["Set-Cookie"]) > 1 {
							t.Errorf("%s: back to %q leads to %q", path, back, to)
						}
					}
				}
			}
		}
	}
}

// TestPagesToGoBackTo are kept.
func TestPagesToGoBackTo(t *testing.T) {
	for back, want := range map[string]string{"/console/topics?x=1": "/console/topics?x=1", "/console/": "/console/",
		"/console/messages/a%2Fb?as=hex#x": "/console/messages/a%2Fb?as=hex#x", "": "/console/", "/other": "/console/",
		"/console/messages/a%2F%2Fb":     "/console/messages/a%2F%2Fb",
		"/console/messages/..%2F..%2F..": "/console/messages/..%2F..%2F..",
		"/console/%2E%2e/x":              "/console/", "/console/messages/%2e%2e/../..": "/console/", "/console//x": "/console/"} {
		if got := local(back, "/console"); got != want {
			t.Errorf("%q: %q, want %q", back, got, want)
		}
	}
}

// TestFormsAreBounded: neither a large form nor one of many fields is read, of those who are not logged in only small
// ones, and nobody keeps one open.
func TestFormsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	many := url.Values{}
	for range maxFields + 1 {
		many.Set("s:"+pawl.NewID(), "x")
	}
	large := url.Values{"s:body": {strings.Repeat("x", maxForm+1)}}
	small := url.Values{"s:topic": {"mail"}, "s:body": {strings.Repeat("x", 1<<20)}}
	for _, length := range []int64{0, -1} { // as it is, not said
		for _, f := range []struct {
			who, path string
			form      url.Values
			want      int
		}{
			{secretOf(api.Admin), "/send", large, http.StatusRequestEntityTooLarge},
			{secretOf(api.Admin), "/send", many, http.StatusRequestEntityTooLarge},
			{secretOf(api.Admin), "/send", small, http.StatusSeeOther},
			{"", "/send", small, http.StatusRequestEntityTooLarge},
			{"", "/login", small, http.StatusRequestEntityTooLarge},
			{"", "/prefer", small, http.StatusRequestEntityTooLarge},
			{"", "/nothing", small, http.StatusRequestEntityTooLarge},
		} {
			q := r.as(f.who, http.MethodPost, "/console"+f.path, f.form)
			q.ContentLength += length * (q.ContentLength + 1)
			w := &hasty{ResponseRecorder: httptest.NewRecorder()}
			if r.ServeHTTP(w, q); w.Code != f.want {
				t.Errorf("%s of %q, %d bytes: %d, want %d", f.path, f.who, q.ContentLength, w.Code, f.want)
			}
			if n := len(w.until); n != 2 || time.Until(w.until[0]) > 2*time.Minute || !w.until[1].IsZero() {
				t.Errorf("%s of %q may take until %v", f.path, f.who, w.until)
			}
		}
	}
}

// hasty keeps until when a body was to be read.
type hasty struct {
	*httptest.ResponseRecorder

	until []time.Time
}

func (h *hasty) SetReadDeadline(at time.Time) error {
	h.until = append(h.until, at)
	return nil
}

// reader is a tab that reads nothing.
type reader struct {
	header http.Header
	mu     sync.Mutex
	said   strings.Builder
	status int
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(s int)   { r.status = s }
func (r *reader) Flush()              {}
func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(b)
}

// TestIdleTabsCostLittle: 3,000 tabs are told of changes, one more than the bound is refused, and pages are answered.
func TestIdleTabsCostLittle(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	open := func() *reader {
		w := &reader{header: http.Header{}}
		q := r.as(secretOf(api.Viewer), http.MethodGet, "/console/live", nil).WithContext(ctx)
		wg.Go(func() { r.ServeHTTP(w, q) })
		return w
	}
	const tabs = 3000
	for range tabs {
		open()
	}
	for int(r.readers.n.Load()) < tabs {
		runtime.Gosched()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse); grown > 64<<20 {
		t.Errorf("%d tabs take %d MB", tabs, grown>>20)
	}
	r.get(secretOf(api.Viewer), "/console/topics")
	r.readers.n.Add(maxReaders)
	w := &reader{header: http.Header{}}
	r.ServeHTTP(w, r.as(secretOf(api.Viewer), http.MethodGet, "/console/live", nil))
	if w.status != http.StatusTooManyRequests {
		t.Error("there is no bound:", w.status)
	}
	r.readers.n.Add(-maxReaders)
	cancel()
	wg.Wait()
	if n := r.readers.n.Load(); n != 0 {
		t.Error(n, "are left")
	}
}

// TestATabIsToldOfChanges: within seconds of a change, and not without one.
func TestATabIsToldOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.append("mail", pawl.Message{Body: []byte("x")})
		ctx, cancel := context.WithCancel(t.Context())
		w := &reader{header: http.Header{}}
		q := r.as(secretOf(api.Viewer), http.MethodGet, "/console/live", nil).WithContext(ctx)
		done := make(chan struct{})
		go func() { defer close(done); r.ServeHTTP(w, q) }()
		ticks := func() int {
			time.Sleep(3 * tickEvery)
			w.mu.Lock()
			defer w.mu.Unlock()
			return strings.Count(w.said.String(), "event: tick")
		}
		first := ticks()
		if again := ticks(); again != first {
			t.Error("it is told of nothing")
		}
		r.append("mail", pawl.Message{Body: []byte("y")})
		if again := ticks(); again != first+1 {
			t.Errorf("told %d times of a change", again-first)
		}
		cancel()
		<-done
	})
}

// TestSecretsAreMasked in what pages show of a message.
func TestSecretsAreMasked(t *testing.T) {
	r := newRig(t, nil)
	body := []byte(`{"user":"ann","password":"hunter-2","deep":{"api_key":"hunter-2"}}`)
	r.append("mail", pawl.Message{ID: "m", Body: body,
		Headers: map[string]string{"authorization": "Bearer hunter-2", "tenant": "acme"}})
	for _, path := range []string{"/messages", "/messages/m", "/messages/m?as=text", "/messages/m?as=tree", "/messages/m?as=hex",
		"/topics/mail"} {
		if body := r.get(secretOf(api.Viewer), "/console"+path); strings.Contains(body, "hunter-2") {
			t.Errorf("%s shows a secret", path)
		}
	}
	cut := []byte(strings.Repeat(" ", maxShown-20) + `{"password":"hunter-2-and-more"}`)
	for _, as := range []string{"text", "hex"} {
		m := operate.Message{Body: new(string(cut))}
		if as == "hex" {
			m.Body = new(string(body))
		}
		if shown := bodyOf(&m, as).Text; strings.Contains(shown, "hunt") || strings.Contains(shown, "68 75 6e 74") {
			t.Errorf("%s shows a secret: %s", as, shown[max(len(shown)-400, 0):])
		}
	}
	shown := r.get(secretOf(api.Viewer), "/console/messages/m")
	if !strings.Contains(shown, "acme") || !strings.Contains(shown, "ann") {
		t.Error("it masks what is none")
	}
}
