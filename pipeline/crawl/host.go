package crawl

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/crawl/robotstxt"
	"github.com/pawl-dev/pawl/store"
)

// Failures of robots.txt: how often it is asked for before the host counts as closed, and how long an answer counts.
const (
	robotsTries = 3
	robotsWait  = time.Second
	robotsFor   = 24 * time.Hour
	deniedFor   = 10 * time.Minute
	maxDelay    = 30 * time.Second // a longer Crawl-delay is not obeyed
	maxHosts    = 50_000           // that are remembered
)

// robots are the rules of a host. denied is why they could not be read, so that nothing is allowed; nil: they could.
type robots struct {
	robotstxt.Rules
	denied error
}

// hosts is the state of the hosts that a process contacts.
type hosts struct {
	mu   sync.Mutex
	byID map[string]*host
}

// host is what is known of one: its rules, and when it may be asked again.
type host struct {
	asking sync.Mutex // one asks for robots.txt
	mu     sync.Mutex
	rules  *robots
	until  time.Time // rules count until then
	next   time.Time // not before
	pace   pace

	version int64 // of the mark of changes, when the marks of the host were read; -1: they were not

	inFlight, failed atomic.Int64 // for the board
}

func (hs *hosts) at(u *url.URL) *host {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	id := site(u)
	h := hs.byID[id]
	if h == nil {
		if len(hs.byID) >= maxHosts { // any will do: it is asked for again
			for old := range hs.byID {
				delete(hs.byID, old)
				break
			}
		}
		h = &host{version: -1}
		hs.byID[id] = h
	}
	return h
}

// reserve reserves the next request to the host, or says how long to wait for it.
func (h *host) reserve(delay time.Duration) (wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if wait = h.next.Sub(now); wait > 0 {
		return wait
	}
	h.next = now.Add(delay)
	return 0
}

// back closes the host to all requests for as long as it asked for.
func (h *host) back(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if next := time.Now().Add(d); next.After(h.next) {
		h.next = next
	}
}

// answered learns from an answer, or its absence, how fast requests may follow.
func (h *host) answered(took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pace.answered(took, err)
}

// strained is the pause between two requests that its answers call for.
func (h *host) strained() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pace.delay
}

// known returns the rules if they are known.
func (h *host) known() *robots {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rules != nil && time.Now().Before(h.until) {
		return h.rules
	}
	return nil
}

// robots returns the rules of a host, and asks for them if need be. Its error is that ctx has ended, or that no proxy
// works.
func (c *crawler) robots(ctx context.Context, h *host, u *url.URL) (*robots, error) {
	if c.options.IgnoreRobots {
		return &robots{}, nil
	}
	if r := h.known(); r != nil {
		return r, nil
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	if r := h.known(); r != nil {
		return r, nil
	}
	r, err := c.askRobots(ctx, u)
	if err != nil {
		return nil, err
	}
	keep := robotsFor
	if r.denied != nil {
		keep = deniedFor
	}
	h.mu.Lock()
	h.rules, h.until = r, time.Now().Add(keep)
	h.mu.Unlock()
	return r, nil
}

// askRobots asks for robots.txt: an answer of 4xx allows everything, none at all or 5xx nothing (RFC 9309, section
// 2.3.1).
func (c *crawler) askRobots(ctx context.Context, u *url.URL) (*robots, error) {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	for try := 0; ; try++ {
		a, _, err := c.reach(context.WithValue(ctx, atMost{}, int64(robotstxt.MaxText)), at)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case pawl.Describe(err).Kind == KindProxy:
			return nil, err // it is not the host's
		case err == nil:
			r := &robots{Rules: *robotstxt.Parse(a.body, robotstxt.Product(c.options.UserAgent))}
			r.Delay = min(r.Delay, maxDelay)
			return r, nil
		case slices.Contains([]pawl.Kind{KindStatus, KindRedirect}, pawl.Describe(err).Kind):
			return &robots{}, nil
		case try+1 == robotsTries || pawl.Describe(err).Class == pawl.ClassPermanent:
			return &robots{denied: err}, nil
		}
		wait := max(robotsWait<<try, min(pawl.Describe(err).After, 10*time.Second))
		if err := store.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// reach asks for what is not a page, and follows redirects to where it is.
func (c *crawler) reach(ctx context.Context, u *url.URL) (a *answer, at *url.URL, err error) {
	at = u
	for range maxRedirects {
		c.count.requests.Add(1)
		if a, err = c.fetch.get(ctx, at); err != nil || a.location == nil {
			return a, at, err
		}
		at = a.location
	}
	return nil, at, pawl.Permanent(pawl.OfKind(KindRedirect, errors.New("too many redirects")))
}
