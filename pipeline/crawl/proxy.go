package crawl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A proxy that fails is set aside for proxyRest, twice as long with each failure in a row, and for no longer than
// proxyRestMax. One that breaks off proxyBroken transfers in a row, while others carry some, has failed, too.
const (
	proxyRest    = time.Second
	proxyRestMax = 5 * time.Minute
	proxyBroken  = 3
)

// proxies are those of a crawl. Requests go in turn through those that work.
type proxies struct {
	mu   sync.Mutex
	all  []*proxy
	next int
	last error // the last failure of one
}

type proxy struct {
	at     *url.URL
	failed int       // in a row
	until  time.Time // it is set aside until then
	broken int       // transfers in a row; since is when the first of them broke off
	since  time.Time
	worked time.Time
}

// newProxies takes texts that [checkProxy] has let through.
func newProxies(texts []string) *proxies {
	ps := &proxies{}
	for _, text := range texts {
		if at, err := url.Parse(text); err == nil {
			ps.all = append(ps.all, &proxy{at: at})
		}
	}
	return ps
}

// checkProxy reports what is wrong with the URL of a proxy, without the URL: it may hold a password.
func checkProxy(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Hostname() != "" && (u.Path == "" || u.Path == "/") {
		switch u.Scheme {
		case "http", "https", "socks5", "socks5h":
			return nil
		}
	}
	return errors.New("must be the URL of a proxy, such as http://user:password@host:3128, https:// or socks5://")
}

// pick takes the next proxy that works; nil: there are none. One whose time is over is tried by one request. The error
// is that all are set aside.
func (ps *proxies) pick() (*proxy, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.all) == 0 {
		return nil, nil
	}
	now := time.Now()
	soonest := ps.all[0].until
	for i := range ps.all {
		at := (ps.next + i) % len(ps.all)
		p := ps.all[at]
		if p.until.After(now) {
			if p.until.Before(soonest) {
				soonest = p.until
			}
			continue
		}
		ps.next = at + 1
		if p.failed > 0 {
			p.rest(now)
		}
		return p, nil
	}
	return nil, pawl.Throttled(pawl.OfKind(KindProxy, fmt.Errorf(
		"no proxy works: all %d are set aside, and the next is tried again in %v; the last failure: %w", len(ps.all),
		soonest.Sub(now).Round(time.Millisecond), ps.last)), soonest.Sub(now))
}

// rest sets a proxy aside for as long as its failures say.
func (p *proxy) rest(now time.Time) {
	p.until = now.Add(min(proxyRest<<min(p.failed-1, 16), proxyRestMax))
}

// judge learns from what became of a request through a proxy, and reports whether the proxy has failed it.
func (ps *proxies) judge(p *proxy, err error) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	kind := pawl.Describe(err).Kind
	_, answered := errors.AsType[*statusError](err)
	switch {
	case kind == KindPrivate: // it was not asked
		return false
	case kind == KindProxy:
		ps.last = err
		p.failed++
		p.rest(now)
		return true
	case kind != KindTransfer || answered:
		p.failed, p.until, p.broken, p.worked = 0, time.Time{}, 0, now // at is read without the lock
		return false
	case p.broken == 0:
		p.since = now
	}
	if p.broken++; p.broken < proxyBroken {
		return false
	}
	for _, other := range ps.all { // if none works, it is the hosts
		if other.worked.After(p.since) {
			ps.last = err
			p.failed, p.broken = p.failed+1, 0
			p.rest(now)
			break
		}
	}
	return false
}

// via is the key of a context for the proxy that its request goes through.
type via struct{}

// proxyOf is the proxy of a request, for the transport.
func proxyOf(req *http.Request) (*url.URL, error) {
	at, _ := req.Context().Value(via{}).(*url.URL)
	return at, nil
}

var errCredentials = pawl.OfKind(KindProxy, errors.New("HTTP 407: the proxy wants other credentials"))

// refusedByProxy is what a proxy says of a connection that it is asked for.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return errCredentials
	}
	return nil
}

// proxyFailure is the error of a proxy that cannot be reached, or refuses; nil: err is something else.
func proxyFailure(err error) error {
	if errors.Is(err, errCredentials) {
		return errCredentials
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return pawl.OfKind(KindProxy, fmt.Errorf("the proxy cannot be reached: %w", op.Err))
	}
	return nil
}

// checkTarget refuses a host with a private address, which a proxy would be asked for. A name that this machine cannot
// resolve is left to the proxy.
func (f *fetcher) checkTarget(ctx context.Context, u *url.URL) error {
	if f.allowPrivate {
		return nil
	}
	bad := privateHost(u)
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !bad {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		found, _ := f.lookup(ctx, "ip", u.Hostname())
		for _, ip := range found {
			bad = bad || private(ip)
		}
	}
	if bad {
		return pawl.Permanent(pawl.OfKind(KindPrivate, errPrivate))
	}
	return nil
}
