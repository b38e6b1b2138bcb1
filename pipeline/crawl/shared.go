package crawl

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/retryafter"
)

const (
	// heldKey names the mark that exists while a host must not be contacted.
	heldKey = "held/"
	// changedKey names the mark that is written with a pause that others cannot know of, and with cookies. While its
	// version is the same, the marks of a host need not be read again.
	changedKey = "changed"
	// lookEvery is how old the knowledge of such marks may be, leastWait the shortest time until one is read again.
	lookEvery = 20 * time.Millisecond
	leastWait = 50 * time.Millisecond
)

// reserve reserves the next request to a host for all processes of the run, or says how long to wait for it. It also
// learns cookies that other processes were given, surely if the page before set some. Requests in flight need no
// reservation, because they are the lanes of the host; nor does --delay, which leaves a host one lane that the store
// holds back.
func (c *crawler) reserve(ctx context.Context, h *host, u *url.URL, delay time.Duration,
	cookies bool) (wait time.Duration, err error) {
	if wait = h.reserve(delay); wait > 0 || c.marked.marks == nil {
		return wait, nil
	}
	held, shared := heldKey+site(u), delay > 0 && c.options.Delay == 0
	taken, version := false, int64(-1)
	if shared {
		marks := []pawl.Mark{{Scope: c.marked.scope, Key: held, For: delay}}
		if h.strained() > 0 {
			marks = append(marks, changed(c.marked.scope))
		}
		receipts, err := c.marked.marks.PutMarks(ctx, marks...)
		if err != nil {
			return 0, fmt.Errorf("reserve a request to a host: %w", err)
		}
		if taken, err = receipts[0].Put, receipts[0].Err; err != nil {
			return 0, err
		}
	} else if version, err = c.changes(ctx); err != nil || h.read(version) && !cookies {
		return 0, err
	}
	found, err := c.marked.marks.GetMarks(ctx, c.marked.scope, held, cookiesOf(u))
	if err != nil {
		return 0, fmt.Errorf("look for pauses of a host: %w", err)
	}
	h.setRead(version)
	if m, there := found[cookiesOf(u)]; there {
		c.fetch.cookies.learn(m)
	}
	m, there := found[held]
	switch {
	case taken:
	case there:
		wait = min(max(time.Until(m.Until), leastWait), retryafter.Most)
		h.back(wait)
	case shared:
		wait = leastWait // it existed a moment ago
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
		If: pawl.AnyVersion}, changed(c.marked.scope))
	return err
}

// changed is the mark that tells all processes of a run to read the marks of hosts again.
func changed(scope string) pawl.Mark {
	return pawl.Mark{Scope: scope, Key: changedKey, If: pawl.AnyVersion}
}

// changes is the version of that mark, as it was lookEvery ago at most.
func (c *crawler) changes(ctx context.Context) (int64, error) {
	m := &c.marked
	m.mu.Lock()
	version, now := m.version, time.Now()
	if now.Sub(m.looked) < lookEvery {
		m.mu.Unlock()
		return version, nil
	}
	m.looked = now
	m.mu.Unlock()
	found, err := m.marks.GetMarks(ctx, m.scope, changedKey)
	if err != nil {
		return 0, fmt.Errorf("look for pauses of hosts: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = found[changedKey].Version
	return m.version, nil
}

// read reports whether the marks of the host were read at a version of the mark of changes.
func (h *host) read(version int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version == version
}

func (h *host) setRead(version int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version = version
}
