package console

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/api"
)

// TestTheLoginSlowsDown: after five failures an address waits, longer each time, whatever it sends then.
func TestTheLoginSlowsDown(t *testing.T) {
	r := newRig(t, nil)
	login := func(token string) reply {
		answer, _ := r.do(r.as("", http.MethodPost, "/console/login", url.Values{"token": {token}, "back": {"/console/topics"}}))
		return answer
	}
	for range freeFailures {
		if status := login("wrong").StatusCode; status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	if answer := login(secretOf(api.Admin)); answer.StatusCode != http.StatusTooManyRequests ||
		answer.Header.Get("Retry-After") == "" || len(answer.Cookies()) > 0 {
		t.Error("guessing goes on:", answer.Status)
	}
	slow := throttle{seed: maphash.MakeSeed()}
	now := time.Now()
	for range 20 {
		now = now.Add(longestWait)
		slow.try("1.2.3.4", now)
	}
	if wait := slow.try("1.2.3.4", now); wait != longestWait || slow.try("5.6.7.8", now) > 0 {
		t.Error("waits", wait)
	}
}

// TestManyLoginsAtOnce: guesses at the same time, from one network, are no more than one after the other.
func TestManyLoginsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	var tried atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		q := r.as("", http.MethodPost, "/console/login", url.Values{"token": {"wrong"}})
		q.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:1", i+1)
		wg.Go(func() {
			w := httptest.NewRecorder()
			if r.ServeHTTP(w, q); w.Code == http.StatusUnauthorized {
				tried.Add(1)
			}
		})
	}
	wg.Wait()
	if n := tried.Load(); n != freeFailures {
		t.Errorf("%d of 100 guesses were looked at", n)
	}
	for remote, want := range map[string]string{"1.2.3.4:5": "1.2.3.4", "[::ffff:1.2.3.4]:5": "1.2.3.4",
		"[2001:db8:0:1::1%eth0]:5": "2001:db8:0:1::/64", "@": "@"} {
		if got := network(r.sites[0].api.From(&http.Request{RemoteAddr: remote})); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// TestALoginForgivesNoGuess: neither the holder of a token, nor many addresses, nor headers of their own make the
// failures of an address forgotten.
func TestALoginForgivesNoGuess(t *testing.T) {
	r := newRig(t, nil)
	login := func(remote, token, forwarded string) int {
		q := r.as("", http.MethodPost, "/console/login", url.Values{"token": {token}})
		q.RemoteAddr = remote
		q.Header.Set("X-Forwarded-For", forwarded)
		answer, _ := r.do(q)
		return answer.StatusCode
	}
	guesses := 0
	for i := range 20 {
		if login("192.0.2.1:5", "wrong", fmt.Sprintf("198.51.100.%d", i)) == http.StatusUnauthorized {
			guesses++
		}
		login("192.0.2.1:5", secretOf(api.Viewer), "")
	}
	if guesses > freeFailures {
		t.Errorf("who holds one token guesses another one %d times", guesses)
	}
	slow, now := &r.logins, time.Now()
	for range 2 * freeFailures {
		now = now.Add(longestWait)
		slow.try("192.0.2.2", now)
	}
	for i := range 20_000 {
		slow.try(fmt.Sprintf("2001:db8:0:%x::/64", i), now)
	}
	if slow.try("192.0.2.2", now) == 0 {
		t.Error("many addresses clear the count of one")
	}
	now = now.Add(2 * forgetAfter)
	for range 2 {
		if slow.try("192.0.2.2", now) > 0 {
			t.Error("failures are never forgotten")
		}
	}
}

// TestAddressesBehindAProxy: each counts for itself, if the proxy is trusted; it is the one in the audit, too.
func TestAddressesBehindAProxy(t *testing.T) {
	r := newRig(t, nil)
	err := r.sites[0].api.SetAccess(api.Access{
		Tokens: []api.Token{{Name: "ada", Secret: secretOf(api.Admin), Role: api.Admin}},
		Proxy: api.Proxy{Trusted: []string{"10.0.0.0/8"}, UserHeader: "X-User",
			Roles: map[string]string{"*": api.Viewer}}})
	if err != nil {
		t.Fatal(err)
	}
	login := func(remote, token, forwarded string) int {
		q := r.as("", http.MethodPost, "/console/login", url.Values{"token": {token}})
		q.RemoteAddr = remote
		q.Header.Set("X-Forwarded-For", forwarded)
		answer, _ := r.do(q)
		return answer.StatusCode
	}
	for i := range 2 * freeFailures {
		login("10.0.0.1:5", "wrong", fmt.Sprintf("198.51.100.%d, 192.0.2.1, 10.0.0.2", i))
		login("203.0.113.1:5", "wrong", fmt.Sprintf("192.0.2.%d", i))
	}
	for forwarded, want := range map[string]int{"192.0.2.1": http.StatusTooManyRequests,
		"192.0.2.9": http.StatusSeeOther} {
		if status := login("10.0.0.1:5", secretOf(api.Admin), forwarded); status != want {
			t.Errorf("%s: %d, want %d", forwarded, status, want)
		}
	}
	if status := login("203.0.113.1:5", secretOf(api.Admin), "192.0.2.77"); status != http.StatusTooManyRequests {
		t.Error("who is no proxy says where it is:", status)
	}
}

// TestSessionsEnd: by time, by logging out, with their token, and when somebody alters them.
func TestSessionsEnd(t *testing.T) {
	r := newRig(t, nil)
	answer, _ := r.do(r.as("", http.MethodPost, "/console/login", url.Values{"token": {secretOf(api.Viewer)},
		"back": {"/console/topics"}}))
	c := answer.Cookies()[0]
	if answer.Header.Get("Location") != "/console/topics" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode ||
		c.MaxAge != int(sessionFor.Seconds()) || strings.Contains(c.Value, secretOf(api.Viewer)) {
		t.Fatal(answer.Header)
	}
	in := func(session string) bool {
		q := r.as("", http.MethodGet, "/console/topics", nil)
		q.AddCookie(&http.Cookie{Name: sessionCookie, Value: session})
		answer, _ := r.do(q)
		return answer.StatusCode == http.StatusOK
	}
	parts := strings.Split(c.Value, ".")
	door := r.sites[0].api
	here := r.as("", http.MethodGet, "/console/topics", nil)
	old, err := door.Session(here, secretOf(api.Viewer), time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	other, err := door.Session(here, secretOf(api.Admin), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ada := strings.Split(other, ".")[1]
	for name, session := range map[string]string{"of another name": parts[0] + "." + ada + "." + parts[2],
		"longer": "zzzzzz." + parts[1] + "." + parts[2], "old": old, "none": "x", "empty": ".."} {
		if in(session) {
			t.Errorf("a session that is %s lets in", name)
		}
	}
	if !in(c.Value) {
		t.Fatal("the session does not let in")
	}
	err = door.SetAccess(api.Access{Tokens: []api.Token{{Name: "vera", Secret: "another-secret", Role: api.Viewer}}})
	if err != nil {
		t.Fatal(err)
	}
	if in(c.Value) {
		t.Error("the session outlives its token")
	}
}

// TestALogoutEndsTheSession, not only its cookie: a copy of it opens nothing any more, and its live page ends.
func TestALogoutEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		q := r.as(secretOf(api.Viewer), http.MethodGet, "/console/live", nil)
		kept := q.Header.Get("Cookie")
		ended := make(chan struct{})
		go func() { defer close(ended); r.ServeHTTP(&reader{header: http.Header{}}, q) }()
		ask := func(method, path string) reply {
			q := r.as("", method, path, nil)
			q.Header.Set("Cookie", kept)
			answer, _ := r.do(q)
			return answer
		}
		if status := ask(http.MethodGet, "/console/topics").StatusCode; status != http.StatusOK {
			t.Fatal(status)
		}
		if c := ask(http.MethodPost, "/console/logout").Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
			t.Error("the cookie stays:", c)
		}
		if status := ask(http.MethodGet, "/console/topics").StatusCode; status != http.StatusSeeOther {
			t.Error("the session goes on:", status)
		}
		time.Sleep(2 * keepAlive)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the live page goes on")
		}
		r.get(secretOf(api.Viewer), "/console/topics") // a later session of the same token
		for range 3 {
			time.Sleep(sessionFor)
			ask(http.MethodPost, "/console/logout") // of a session that has ended
		}
		if n := len(r.ended.known); n > 1 {
			t.Error(n, "sessions are remembered")
		}
	})
}

// TestAStaleSessionIsNone: a cookie goes to all ports of a host, so that one console gets that of another one. Who
// needs no session does not have to log in for it.
func TestAStaleSessionIsNone(t *testing.T) {
	r := newRig(t, nil)
	stale := r.as(secretOf(api.Admin), http.MethodGet, "/console/topics", nil)
	local := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8470})
	stale = stale.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
	stale.Header.Set("X-User", "zoe")
	for name, access := range map[string]api.Access{"no tokens": {}, "proxy": {Proxy: api.Proxy{
		Trusted: []string{"192.0.2.1"}, UserHeader: "X-User", Roles: map[string]string{"zoe": api.Viewer}}}} {
		if err := r.sites[0].api.SetAccess(access); err != nil {
			t.Fatal(err)
		}
		if stale.Host = "localhost"; name == "proxy" {
			stale.Host = "pawl.test"
		}
		if answer, _ := r.do(stale); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
}

// TestCookiesBehindTLS: where the browser came by HTTPS, the cookie goes no other way.
func TestCookiesBehindTLS(t *testing.T) {
	r := newRig(t, nil)
	for proto, want := range map[string]bool{"": false, "http": false, "https": true} {
		q := r.as("", http.MethodPost, "/console/login", url.Values{"token": {secretOf(api.Viewer)}})
		q.Header.Set("X-Forwarded-Proto", proto)
		if answer, _ := r.do(q); answer.Cookies()[0].Secure != want {
			t.Errorf("by %q: %s", proto, answer.Cookies()[0])
		}
	}
}

// TestALinkOpensOnce is about what pawl console prints.
func TestALinkOpensOnce(t *testing.T) {
	r := newRig(t, nil)
	path := r.Link(secretOf(api.Admin))
	for _, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if answer, _ := r.do(r.as("", http.MethodGet, path, nil)); answer.StatusCode != want {
			t.Errorf("%d, want %d", answer.StatusCode, want)
		}
	}
	if r.links.take(r.links.add("x", time.Now().Add(-time.Hour)), time.Now()) != "" {
		t.Error("an old link opens")
	}
}

// TestSecretsStayInside: no page, header, address or line of the log has a token, a session, or the key of a link, even
// where it is sent to the wrong place.
func TestSecretsStayInside(t *testing.T) {
	var log lockedBuffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(was)
	r, plan := furnished(t, nil)
	link := r.Link(secretOf(api.Admin))
	_, key, _ := strings.Cut(link, "key=")
	session := r.as(secretOf(api.Operator), http.MethodGet, "/console/", nil).Header.Get("Cookie")
	session = session[strings.IndexByte(session, '=')+1:]
	secrets := []string{secretOf(api.Admin), secretOf(api.Operator), "wrong-secret", key, session}
	ask := func(q *http.Request) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		for _, c := range w.Result().Cookies() {
			if c.Name == sessionCookie && c.MaxAge > 0 {
				secrets = append(secrets, c.Value)
			}
		}
		w.Header().Del("Set-Cookie")
		for _, secret := range secrets {
			if answer := fmt.Sprint(w.Header(), w.Body); strings.Contains(answer, secret) {
				t.Errorf("%s %s shows %s", q.Method, q.URL.Path, secret)
			}
		}
	}
	for _, token := range secrets {
		for _, path := range []string{"/console/login", "/console/open", "/console/nothing", "/v1/topics"} {
			ask(r.as("", http.MethodPost, path, url.Values{"token": {token}, "key": {token}, "back": {"/console/topics"}}))
		}
	}
	for range 2 {
		ask(r.as("", http.MethodGet, link, nil))
	}
	private, public := targets(t, r)
	private = append(private, target{method: http.MethodPost, path: "/console/commands/x.fail",
		form: sends["/v1/commands/{command}"]}) // it is logged
	for _, to := range append(private, public...) {
		if strings.HasSuffix(to.path, "/live") {
			continue // it has no end
		}
		for _, given := range []string{"Bearer wrong-secret", "Bearer " + secretOf(api.Operator), "Basic wrong-secret",
			"wrong-secret", "Bearer"} {
			q := r.by("", &to, plan)
			q.Header.Set("Authorization", given)
			ask(q)
		}
		for _, given := range []string{session, session + "x", "x." + session, "wrong-secret"} {
			q := r.by("", &to, plan)
			q.AddCookie(&http.Cookie{Name: sessionCookie, Value: given})
			ask(q)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	if log.String() == "" {
		t.Error("nothing was logged: the test proves nothing")
	}
}

// lockedBuffer takes lines of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
