package forward

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// One process of all that share a store leads: it asks Telegram for updates, of which there can be one at a
// time, and it sends, so that the limits of the bot hold over all processes without a call to the store for
// each message. Thirty messages a second, the most that Telegram takes from a bot, are little work for one
// process. The others handle updates, and take over when the leader ends or dies.
//
// Leadership is a lease in an entry of the store's state. The leader relies on it by its own monotonic
// clock, for a shorter time than the others wait.
const (
	leadFor    = 10 * time.Second // after which others take over
	leadTrust  = 7 * time.Second  // for which the leader believes in it
	leadRenew  = 2 * time.Second
	leadLook   = time.Second
	offsetOld  = 24 * time.Hour // see leadRecord
	pausesKept = 5 * time.Second
)

// leadRecord is the entry.
type leadRecord struct {
	Owner string `json:"owner"` // empty: no process leads
	Until int64  `json:"until"` // Unix milliseconds, by the store's clock
	// Offset is the first update that is not stored yet. After a week without updates Telegram counts from
	// anywhere, and would drop what is below an offset that is too high: one older than a day is not used.
	// The unique keys of updates make up for it.
	Offset   int64 `json:"offset"`
	OffsetAt int64 `json:"offset_at"`
	// Since is when Owner began to lead.
	Since int64 `json:"since"`
	// Pauses are chats that must get no messages for longer than a moment, and until when; a new leader obeys them.
	Pauses map[int64]int64 `json:"pauses,omitempty"`
}

type leader struct {
	state  store.Shared
	key    string
	owner  string
	logger *slog.Logger
	pauses func(now time.Time) map[int64]time.Time // of the sender, to be kept
	began  func(r *leadRecord, now time.Time)      // it leads from now on
	ended  func()                                  // it no longer leads

	mu      sync.Mutex
	record  leadRecord
	version int64
	until   time.Time // by this process's clock; zero: it does not lead
}

// leads reports whether this process leads.
func (l *leader) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// run takes part in the election until ctx ends. While this process leads, work runs; its context ends when
// that is over.
func (l *leader) run(ctx context.Context, work func(ctx context.Context)) {
	for ctx.Err() == nil {
		if !l.campaign(ctx) {
			_ = store.Sleep(ctx, leadLook)
			continue
		}
		l.lead(ctx, work)
	}
}

// lead leads until ctx ends or the lease is lost.
func (l *leader) lead(ctx context.Context, work func(ctx context.Context)) {
	l.logger.Info("this process polls and sends from now on")
	leading, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { work(leading) })
	for store.Sleep(ctx, leadRenew) == nil {
		if err := l.renew(ctx, nil); err != nil {
			l.logger.Warn("the lease of the leader could not be renewed", "error", err)
			if !l.leads() || conflict(err) {
				break
			}
		}
	}
	stop()
	wg.Wait()
	l.ended()
	l.resign()
}

// campaign takes the lease if it is free.
func (l *leader) campaign(ctx context.Context) bool {
	var r leadRecord
	version, err := pipeline.ReadState(ctx, l.state, l.key, &r)
	if version == 0 && err != nil {
		return false
	}
	if err != nil { // not JSON: else no process would lead again
		l.logger.Error("the record of the leader is replaced", "error", err)
		r = leadRecord{}
	}
	now, err := l.state.Clock(ctx)
	if err != nil {
		return false
	}
	if r.Owner != "" && now.UnixMilli() < r.Until {
		return false
	}
	if r.Offset > 0 && now.Sub(time.UnixMilli(r.OffsetAt)) > offsetOld {
		r.Offset = 0
	}
	r.Since = now.UnixMilli()
	l.mu.Lock()
	l.record, l.version = r, version
	l.mu.Unlock()
	if l.put(ctx, now, nil) != nil {
		return false
	}
	l.began(&r, now)
	return true
}

// renew makes the lease longer and notes the offset, if one is given.
func (l *leader) renew(ctx context.Context, offset *int64) error {
	now, err := l.state.Clock(ctx)
	if err != nil {
		return err
	}
	return l.put(ctx, now, offset)
}

func (l *leader) put(ctx context.Context, now time.Time, offset *int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	here := time.Now()
	next := l.record
	next.Owner, next.Until = l.owner, now.Add(leadFor).UnixMilli()
	if offset != nil {
		next.Offset, next.OffsetAt = *offset, now.UnixMilli()
	}
	next.Pauses = map[int64]int64{}
	for chat, until := range l.pauses(here) {
		next.Pauses[chat] = now.Add(until.Sub(here)).UnixMilli()
	}
	ctx, cancel := context.WithTimeout(ctx, leadRenew)
	defer cancel()
	err := pipeline.WriteState(ctx, l.state, l.key, next, &l.version, l.owner)
	switch {
	case err == nil:
		l.record, l.until = next, here.Add(leadTrust)
	case conflict(err):
		l.until = time.Time{}
	}
	return err
}

// watched returns the time, by the store's clock, in which one process received updates: from when it began to lead to
// the last sign of it.
func (l *leader) watched(ctx context.Context, now time.Time) (from, to time.Time, err error) {
	l.mu.Lock()
	r, leads := l.record, time.Now().Before(l.until)
	l.mu.Unlock()
	if leads {
		return time.UnixMilli(r.Since), now, nil
	}
	r = leadRecord{}
	version, err := pipeline.ReadState(ctx, l.state, l.key, &r)
	if err != nil || version == 0 {
		return time.Time{}, time.Time{}, err
	}
	return time.UnixMilli(r.Since), time.UnixMilli(r.Until).Add(-leadFor), nil
}

// offset is where to go on with updates.
func (l *leader) offset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Offset
}

// resign gives the lease up at once, so that another process goes on within a second.
func (l *leader) resign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() {
		return
	}
	l.until = time.Time{}
	ctx, cancel := context.WithTimeout(context.Background(), leadRenew)
	defer cancel()
	next := l.record
	next.Owner = ""
	_ = pipeline.WriteState(ctx, l.state, l.key, next, &l.version, l.owner) // else the lease runs out
}
