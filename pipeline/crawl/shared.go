package crawl

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// heldKey names the mark that is there for as long as nobody may ask a host.
	heldKey = "held/"
	// lookEvery is how old the knowledge of such a mark may be, leastWait the shortest time until it is looked at again.
	lookEvery = 20 * time.Millisecond
	leastWait = 50 * time.Millisecond
)

// turn takes the next request to a host for all processes of the run, or says how long to wait for it. Requests in flight
// need nothing of this: they are the lanes of the host. Nor does --delay, which leaves a host one lane: the store holds it.
func (c *crawler) turn(ctx context.Context, h *host, site string, delay time.Duration) (wait time.Duration, err error) {
	if wait = h.turn(delay); wait > 0 || c.marked.marks == nil {
		return wait, nil
	}
	if delay > 0 && c.options.Delay == 0 {
		mark := pawl.Mark{Scope: c.marked.scope, Key: heldKey + site, For: delay}
		receipts, err := c.marked.marks.PutMarks(ctx, mark)
		if err != nil {
			return 0, fmt.Errorf("take a turn: %w", err)
		}
		if receipts[0].Err != nil || receipts[0].Put {
			return 0, receipts[0].Err
		}
	} else if h.lookedWithin(lookEvery) {
		return 0, nil
	}
	found, err := c.marked.marks.GetMarks(ctx, c.marked.scope, heldKey+site)
	if err != nil {
		return 0, fmt.Errorf("look for pauses of a host: %w", err)
	}
	m, held := found[heldKey+site]
	switch {
	case held:
		wait = min(max(time.Until(m.Until), leastWait), maxRetryAfter)
		h.back(wait)
	case delay > 0 && c.options.Delay == 0:
		wait = leastWait // it was there a moment ago
	}
	return wait, nil
}

// hold keeps all processes of the run off a host for as long as it asked for.
func (c *crawler) hold(ctx context.Context, h *host, site string, after time.Duration) error {
	h.back(after)
	if c.marked.marks == nil {
		return nil
	}
	_, err := c.marked.marks.PutMarks(ctx, pawl.Mark{Scope: c.marked.scope, Key: heldKey + site, For: after, If: pawl.AnyVersion})
	return err
}

// lookedWithin tells whether a mark was looked for lately; if not, it is now.
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
