package dispatch

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// beat is one call of Extend: runs whose leases are of one length.
type beat struct {
	lease  time.Duration
	tokens []pawl.Token
	runs   []*run
	claims []*claim
}

// beatLoop keeps leases, a third of their length after they were given or last
// extended. It has a goroutine of its own: neither handlers nor settles delay it.
func (d *watcher) beatLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d.mu.Lock()
		now := d.engine.now()
		var due []*beat
		if now >= d.beatAt {
			due = d.dueBeats(now)
		}
		d.mu.Unlock()
		for _, b := range due {
			d.extend(b)
		}
		d.mu.Lock()
		wait := min(d.beatAt-d.engine.now(), time.Hour)
		d.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-d.beatKick:
		case <-timer.C:
		case <-d.stop:
			return
		}
	}
}

// dueBeats gathers the runs whose leases are due for extension, including those that
// are carried out and not settled yet. The caller holds mu.
func (d *watcher) dueBeats(now time.Duration) []*beat {
	var due []*beat
	open := map[time.Duration]*beat{}
	d.beatAt = never
	for _, c := range d.claims {
		if now >= c.beat {
			c.beat = now + c.lease/3
			b := open[c.lease]
			if b == nil || len(b.tokens)+c.live > store.MaxBatch {
				b = &beat{lease: c.lease}
				open[c.lease] = b
				due = append(due, b)
			}
			b.add(c)
		}
		d.beatAt = min(d.beatAt, c.beat)
	}
	return due
}

func (b *beat) add(c *claim) {
	b.claims = append(b.claims, c)
	for i := range c.runs {
		if r := &c.runs[i]; r.left > 0 && !r.lost {
			b.runs = append(b.runs, r)
			b.tokens = append(b.tokens, r.token())
		}
	}
}

// extend lets leases end later.
func (d *watcher) extend(b *beat) {
	if len(b.tokens) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(d.io, b.lease/3)
	began, sent := time.Now(), d.engine.now()
	lost, err := d.store.Extend(ctx, b.lease, b.tokens...)
	cancel()
	d.claimer.called("extend", began, len(b.tokens), err)
	gone := make(map[pawl.Token]bool, len(lost))
	for _, token := range lost {
		gone[token] = true
	}
	d.mu.Lock()
	now := d.engine.now()
	if err != nil {
		d.beatAgain(b, now+b.lease/12)
		d.mu.Unlock()
		return
	}
	var endings []ending
	for i, r := range b.runs {
		if gone[b.tokens[i]] {
			endings = append(endings, d.lose(r, now)...)
		} else {
			r.until = max(r.until, r.leased(sent, b.lease))
		}
	}
	d.mu.Unlock()
	endAll(endings)
}

// beatAgain tries sooner than usual, because a call failed. The caller holds mu.
func (d *watcher) beatAgain(b *beat, at time.Duration) {
	for _, c := range b.claims {
		c.beat = min(c.beat, at)
	}
	d.beatAt = min(d.beatAt, at)
}
