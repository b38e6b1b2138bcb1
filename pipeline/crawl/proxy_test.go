package crawl

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

// testProxy forwards every request to one site, whatever its host, and refuses the first of them. It wants the
// credentials that address has.
type testProxy struct {
	address string
	asked   atomic.Int64
}

func newTestProxy(t *testing.T, site string, refuses int64) *testProxy {
	t.Helper()
	to, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	forward, p := httputil.NewSingleHostReverseProxy(to), &testProxy{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.asked.Add(1) <= refuses || r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.address = strings.Replace(s.URL, "://", "://shop:hush@", 1)
	return p
}

// TestProxiesTakeTurns: a proxy that refuses or cannot be reached costs no attempt, those that work take turns, and
// private addresses are refused, but not those of proxies.
func TestProxiesTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWeb(t, map[string]http.HandlerFunc{
		"/":  text("text/html", links("/a", "/b", "/c", "/d", "/e", "http://127.0.0.1/", "http://10.0.0.1/")),
		"/a": text("text/html", "a"), "/b": text("text/html", "b"), "/c": text("text/html", "c"),
		"/d": text("text/html", "d"), "/e": text("text/html", "e"),
	})
	const gone = "http://127.0.0.1:1" // nobody listens there
	one, two, refuses := newTestProxy(t, w.URL, 0), newTestProxy(t, w.URL, 0), newTestProxy(t, w.URL, 1<<30)
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"allow-private": false, "scope": ScopeAll,
		"proxy": []string{gone, one.address, refuses.address, two.address}}}
	sum, pages, err := r.run(t.Context(), "http://192.0.2.1/")
	if err != nil || sum.Stored != 6 || sum.Retries != 0 || sum.Excluded != 2 || len(pages) != 6 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if one.asked.Load() < 2 || two.asked.Load() < 2 {
		t.Errorf("%d and %d requests: they do not take turns", one.asked.Load(), two.asked.Load())
	}
	if refuses.asked.Load() == 0 {
		t.Error("the proxy that refuses was not asked")
	}
	if _, _, err := r.run(t.Context(), "http://127.0.0.1/"); code(err) != 2 {
		t.Errorf("a private seed: %v", err)
	}
}

// TestProxyOfAPrivateName: a name that is private here is not asked for, whatever it is to the proxy.
func TestProxyOfAPrivateName(t *testing.T) {
	p := newTestProxy(t, "http://127.0.0.1", 0)
	o := Defaults()
	o.Proxies = []string{p.address}
	f := newFetcher(&o)
	f.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.2.3")}, nil
	}
	for _, text := range []string{"http://inside.example/", "http://localhost/", "http://[::1]/"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.get(t.Context(), u); pawl.Describe(err).Kind != KindPrivate {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p.asked.Load() > 0 {
		t.Error("the proxy was asked")
	}
}

// TestNoProxyWorks: requests wait until a proxy works again, and use up no attempt; the host is not to blame.
func TestNoProxyWorks(t *testing.T) {
	t.Parallel()
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "x")})
	p := newTestProxy(t, w.URL, 1)
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"allow-private": false, "proxy": []string{p.address}}}
	sum, _, err := r.run(t.Context(), "http://192.0.2.1/")
	if err != nil || sum.Stored != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestAProxyThatRefusesToConnect: what a proxy says when it is asked for a connection is its own.
func TestAProxyThatRefusesToConnect(t *testing.T) {
	p := newTestProxy(t, "http://127.0.0.1", 1<<30)
	o := Defaults()
	o.Proxies = []string{p.address}
	f := newFetcher(&o)
	_, err := f.get(t.Context(), &url.URL{Scheme: "https", Host: "192.0.2.1", Path: "/"})
	if d := pawl.Describe(err); d.Kind != KindProxy || d.Class != pawl.ClassThrottled || p.asked.Load() != 1 ||
		!strings.Contains(err.Error(), "407") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v, after %d requests", err, p.asked.Load())
	}
}

// TestProxyHealth holds the pauses of proxies to the clock.
func TestProxyHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies([]string{"http://a:hush@one", "http://b:hush@two"})
		pick := func(want string) *proxy {
			t.Helper()
			p, err := ps.pick()
			if err != nil || p.at.Host != want {
				t.Fatalf("%v, %v; want %s", p, err, want)
			}
			return p
		}
		refused := pawl.OfKind(KindProxy, errors.New("refused"))
		broken := pawl.OfKind(KindTransfer, errors.New("EOF"))
		one, two := pick("one"), pick("two")
		if !ps.judge(one, refused) {
			t.Error("a proxy that refuses has failed")
		}
		pick("two")
		ps.judge(two, refused)
		_, err := ps.pick()
		if f := pawl.Describe(err); f.Kind != KindProxy || f.Class != pawl.ClassThrottled || f.After != time.Second ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("all are set aside: %+v", f)
		}
		time.Sleep(time.Second)
		ps.judge(pick("one"), refused) // one request tries it: two seconds more
		ps.judge(pick("two"), &statusError{http.StatusNotFound})
		pick("two")
		pick("two")
		time.Sleep(2 * time.Second)
		ps.judge(pick("one"), nil)
		time.Sleep(time.Second)
		for range proxyBroken { // not in a row
			ps.judge(one, broken)
			ps.judge(two, nil)
			ps.judge(one, nil)
		}
		if pick("two"); !one.until.IsZero() {
			t.Error("it was set aside before its third failure in a row")
		}
	})
}

// TestAProxyThatBreaksOff: transfers that break off are the proxy's if others carry some, else the hosts'.
func TestAProxyThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := pawl.OfKind(KindTransfer, errors.New("EOF"))
		for _, others := range []error{nil, broken} {
			ps := newProxies([]string{"http://one", "http://two"})
			for range proxyBroken {
				ps.judge(ps.all[0], broken)
				time.Sleep(time.Second)
				ps.judge(ps.all[1], others)
			}
			if aside := ps.all[0].failed > 0; aside != (others == nil) {
				t.Errorf("the others: %v; it is set aside: %t", others, aside)
			}
		}
	})
}

func TestWrongProxies(t *testing.T) {
	for text, right := range map[string]bool{
		"http://host:3128": true, "https://u:hush@host/": true, "socks5://u:hush@host:1080": true, "host:3128": false,
		"ftp://u:hush@host": false, "http://u:hush@host/path": false, "http://u:hush@ho st": false, "http://": false,
	} {
		if err := checkProxy(text); (err == nil) != right || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
