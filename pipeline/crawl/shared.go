package crawl

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// heldKey names the mark that is there for as long as nobody may ask a host.
	heldKey = "held/"
	// lookEvery is how old the knowledge of such marks may be, leastWait the shortest time until one is
	// looked at again.
	lookEvery = 20 * time.Millisecond
	leastWait = 50 * time.Millisecond
)

// turn takes the next request to a host for all processes of the run, or says how long to wait for it; and takes up
// cookies that others were given, for sure where the page before set some. Requests in flight
// need nothing of this: they are the lanes of the host. Nor does --delay, which leaves a host one lane: the
// store holds it.
func (c *crawler) turn(ctx context.Context, h *host, u *url.URL, delay time.Duration, cookies bool) (wait time.Duration,
	err error) {
	if wait = h.turn(delay); wait > 0 || c.marked.marks == nil {
		return wait, nil
	}
	held, turns := heldKey+site(u), delay > 0 && c.options.Delay == 0
	taken := false
	if turns {
		mark := pawl.Mark{Scope: c.marked.scope, Key: held, For: delay}
		receipts, err := c.marked.marks.PutMarks(ctx, mark)
		if err != nil {
			return 0, fmt.Errorf("take a turn: %w", err)
		}
		if taken, err = receipts[0].Put, receipts[0].Err; err != nil {
			return 0, err
		}
	} else if h.lookedWithin(lookEvery) && !cookies {
		return 0, nil
	}
	found, err := c.marked.marks.GetMarks(ctx, c.marked.scope, held, cookiesOf(u))
	if err != nil {
		return 0, fmt.Errorf("look for pauses of a host: %w", err)
	}
	if m, there := found[cookiesOf(u)]; there {
		c.fetch.cookies.learn(m)
	}
	m, there := found[held]
	switch {
	case taken:
	case there:
		wait = min(max(time.Until(m.Until), leastWait), maxRetryAfter)
		h.back(wait)
	case turns:
		wait = leastWait // it was there a moment ago
	}
	return wait, nil
}

// hold keeps all processes of the run off a host for as long as it asked for.
func (c *crawler) hold(ctx context.Context, h *host, u *url.URL, after time.Duration) error {
	h.back(after)
	if c.marked.marks == nil {
		return nil
	}
	_, err := c.marked.marks.PutMarks(ctx, pawl.Mark{Scope: c.marked.scope, Key: heldKey + site(u), For: after,
		If: pawl.AnyVersion})
	return err
}

// lookedWithin tells whether the marks of a host were looked at lately; if not, they are now.
func (h *host) lookedWithin(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.looked) < d {
		return true
	}
	h.looked = now
	return false
}
