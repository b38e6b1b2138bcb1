package forward

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// limit is how many messages may arrive in any stretch of time, one after the other.
type limit struct {
	n   int
	per time.Duration
}

// limitOf makes a limit of a rate: whole messages a second, or a minute if there is less than one a second.
func limitOf(rate float64) limit {
	switch {
	case rate <= 0:
		return limit{}
	case rate >= 1:
		return limit{int(rate + 1e-9), time.Second}
	case rate*60 >= 1:
		return limit{int(rate*60 + 1e-6), time.Minute}
	}
	return limit{1, time.Duration(float64(time.Second) / rate)}
}

func (l limit) gap() time.Duration {
	if l.n == 0 {
		return 0
	}
	return l.per / time.Duration(l.n)
}

// limits are those of a bot.
type limits struct {
	off              bool
	all, chat, group limit
}

// margin is added to what is counted from an answer, because the other side's clock may be a little slower.
const margin = 10 * time.Millisecond

// window counts what arrived lately. When a message arrived is known to lie between the begin of its call and
// the answer, so it counts from the one until a full stretch after the other: then no stretch at the receiver
// has more than n.
type window struct {
	limit
	from     time.Time // nothing begins before that
	inFlight int
	sent     []arrival
}

type arrival struct {
	answered time.Time
	weight   int
}

// opens is when a message of that weight may begin. A heavier one than fits waits until the window is empty.
func (w *window) opens(now time.Time, weight int) time.Time {
	if w.n == 0 {
		return now
	}
	for len(w.sent) > 0 && !w.sent[0].answered.Add(w.per+margin).After(now) {
		w.sent = w.sent[1:]
	}
	at, free := now, w.n-w.inFlight
	for _, s := range w.sent {
		free -= s.weight
	}
	for i := 0; i < len(w.sent) && free < min(weight, w.n); i++ {
		free += w.sent[i].weight
		at = w.sent[i].answered.Add(w.per + margin)
	}
	if free < min(weight, w.n) { // something in flight has to be answered first
		at = now.Add(w.gap())
	}
	return later(at, w.from)
}

func (w *window) begin(weight int) { w.inFlight += weight }

// end counts a call that was answered now. A call that failed counts, too: what the other side counts is unknown.
func (w *window) end(now time.Time, weight int) {
	w.inFlight = max(w.inFlight-weight, 0) // it may have begun before start
	if w.n > 0 {
		w.sent = append(w.sent, arrival{now, weight})
	}
}

// pacer decides which message may be sent now. It is asked by the handlers of the sending process. What may not be sent
// is given back to the store until its turn, and of several lanes to one chat the one of the best rank has the next
// turn.
type pacer struct {
	limits limits

	mu      sync.Mutex
	all     window
	spaced  time.Time // before that, nothing begins: the limit of all is spread evenly
	chats   map[int64]*chatPace
	started time.Time
	stopped bool
	waiting []*waiter // for the limit of all
	timer   *time.Timer
}

// chatPace is what is known of a chat.
type chatPace struct {
	window           // of the slower of its limits, which keeps the other one, too
	closed time.Time // Telegram asked to leave it alone until then
	busy   bool
	waits  map[string]waitingLane
}

// waitingLane is a lane that waits for its turn: here, or given back to the store.
type waitingLane struct {
	rank int64
	due  time.Time
	look chan struct{} // a call was answered; nil: it was given back
}

// waiter is a handler that waits for the limit of all, with its chat in hand.
type waiter struct {
	rank    int64
	weight  int
	granted chan struct{}
	refused chan struct{}
}

func newPacer(l limits) *pacer {
	return &pacer{limits: l, all: window{limit: l.all}, chats: map[int64]*chatPace{}}
}

const (
	// soon is how long a handler waits by itself for its chat; what has to wait longer is given back.
	soon = 40 * time.Millisecond
	// late is for how long after its turn a lane is waited for.
	late = 400 * time.Millisecond
	// longest is how long a lane is given back for at most because of others before it: they may be gone by then.
	longest = 15 * time.Second
)

// start begins again, after another process may have sent until now.
func (p *pacer) start(now time.Time, pauses map[int64]time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = false
	p.chats, p.started, p.all = map[int64]*chatPace{}, now, window{limit: p.limits.all, from: now.Add(p.limits.all.per)}
	for chat, until := range pauses {
		p.at(chat).closed = until
	}
}

// errStopped tells waiting handlers that this process no longer sends.
var errStopped = errors.New("another process sends")

// stop lets nothing begin any more, and waits for calls that are under way, but not for long.
func (p *pacer) stop(patience time.Duration) {
	for end := time.Now().Add(patience); ; time.Sleep(soon / 4) {
		p.mu.Lock()
		p.stopped = true
		for _, w := range p.waiting {
			close(w.refused)
		}
		p.waiting = nil
		calls := p.all.inFlight
		p.mu.Unlock()
		if calls == 0 || time.Now().After(end) {
			return
		}
	}
}

// at returns the pace of a chat. The caller holds mu.
func (p *pacer) at(chat int64) *chatPace {
	c := p.chats[chat]
	if c != nil {
		return c
	}
	if len(p.chats) > 10000 {
		p.sweep(time.Now())
	}
	c = &chatPace{waits: map[string]waitingLane{}, window: window{limit: p.limits.chat}}
	if chat < 0 && p.limits.group.gap() > c.gap() {
		c.limit = p.limits.group
	}
	if !p.started.IsZero() { // the previous leader may have just sent
		c.from = p.started.Add(c.gap())
	}
	p.chats[chat] = c
	return c
}

// sweep forgets chats that have nothing to remember.
func (p *pacer) sweep(now time.Time) {
	for id, c := range p.chats {
		if !c.busy && c.opens(now, 1).Equal(now) && len(c.sent)+len(c.waits) == 0 {
			delete(p.chats, id)
		}
	}
}

// opens is when a message may begin, as far as the chat alone is asked. One message at a time, a gap after each answer.
func (c *chatPace) opens(now time.Time, weight int) time.Time {
	at := later(c.closed, c.window.opens(now, weight))
	if n := len(c.sent); n > 0 { // an album counts as its parts: so many gaps after it
		last := c.sent[n-1]
		at = later(at, last.answered.Add(time.Duration(last.weight)*c.gap()+margin))
	}
	return at
}

// enter asks for a turn at a chat. If wait is 0, the caller has it and must leave; otherwise it gives its
// lane back for that long.
func (p *pacer) enter(ctx context.Context, chat int64, lane string, rank int64, weight int) (wait time.Duration) {
	if p.limits.off {
		return p.paused(chat)
	}
	for look := make(chan struct{}, 1); ; {
		wait := p.tryEnter(chat, lane, rank, weight, look)
		if wait == 0 || wait > soon {
			return wait
		}
		timer := time.NewTimer(wait)
		select {
		case <-look:
		case <-timer.C:
		case <-ctx.Done():
			return wait
		}
		timer.Stop()
	}
}

// paused is for how long a chat asked to be left alone.
func (p *pacer) paused(chat int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.chats[chat]; c != nil {
		return max(time.Until(c.closed), 0)
	}
	return 0
}

// tryEnter takes the turn, if it is this lane's and the chat is open, or tells how long to wait. look is signalled when
// a call was answered and this lane is the best of those that wait here.
func (p *pacer) tryEnter(chat int64, lane string, rank int64, weight int, look chan struct{}) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	c := p.at(chat)
	opens := c.opens(now, weight)
	gap := max(c.gap(), soon)
	if c.busy {
		opens = later(opens, now.Add(gap))
	}
	before := 0
	for l, w := range c.waits {
		switch {
		case now.After(w.due.Add(late)):
			delete(c.waits, l)
		case l != lane && w.rank < rank && w.due.Before(opens.Add(gap/2+late)):
			before++
		}
	}
	if before > 0 {
		opens = later(opens, now.Add(soon)).Add(min(time.Duration(before)*gap, longest) - gap/2)
	}
	if wait := opens.Sub(now); wait > 0 {
		if wait > soon {
			look = nil
		}
		c.waits[lane] = waitingLane{rank, opens, look}
		return wait
	}
	delete(c.waits, lane)
	c.busy = true
	c.begin(weight)
	return 0
}

// awaitTurn waits for the limit of all, the best rank first. The caller has entered.
func (p *pacer) awaitTurn(ctx context.Context, rank int64, weight int) error {
	if p.limits.off || p.limits.all.n == 0 {
		return nil
	}
	w := &waiter{rank: rank, weight: weight, granted: make(chan struct{}), refused: make(chan struct{})}
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return errStopped
	}
	p.waiting = append(p.waiting, w)
	p.pump()
	p.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-w.refused:
		return errStopped
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else {
		p.all.end(time.Now(), weight) // it was let go just then
	}
	return context.Cause(ctx)
}

// pump lets go who may. The caller holds mu.
func (p *pacer) pump() {
	for len(p.waiting) > 0 {
		w := slices.MinFunc(p.waiting, func(a, b *waiter) int { return cmp.Compare(a.rank, b.rank) })
		now := time.Now()
		if wait := later(p.all.opens(now, w.weight), p.spaced).Sub(now); wait > 0 {
			if p.timer != nil {
				p.timer.Stop()
			}
			p.timer = time.AfterFunc(wait, func() { p.mu.Lock(); defer p.mu.Unlock(); p.pump() })
			return
		}
		p.all.begin(w.weight)
		p.spaced = now.Add(time.Duration(w.weight) * p.all.gap())
		p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
		close(w.granted)
	}
}

// leave ends a turn: the call was answered, or given up. turned reports whether the limit of all was waited
// for; pause is for how long the chat asked to be left alone. It returns how long the lane must stay closed.
func (p *pacer) leave(chat int64, weight int, turned bool, pause time.Duration) (hold time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.limits.off {
		if pause > 0 {
			p.at(chat).closed = now.Add(pause)
		}
		return pause
	}
	c := p.at(chat)
	c.busy = false
	if !turned {
		c.inFlight = max(c.inFlight-weight, 0)
		c.wakeBest()
		return 0
	}
	c.end(now, weight)
	if p.limits.all.n > 0 {
		p.all.end(now, weight)
		p.pump()
	}
	if pause > 0 {
		c.closed = later(c.closed, now.Add(pause+margin))
	}
	c.wakeBest()
	return max(c.opens(now, 1).Sub(now), 0)
}

// wakeBest lets the best of the lanes that wait here look again.
func (c *chatPace) wakeBest() {
	var best waitingLane
	for _, w := range c.waits {
		if w.look != nil && (best.look == nil || w.rank < best.rank) {
			best = w
		}
	}
	select {
	case best.look <- struct{}{}: // never, if there is none
	default:
	}
}

// pauses are the chats that stay closed for longer than a moment.
func (p *pacer) pauses(now time.Time) map[int64]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[int64]time.Time{}
	for id, c := range p.chats {
		if at := c.opens(now, 1); at.Sub(now) > pausesKept {
			all[id] = at
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pinned reports whether messages wait for the limit of all.
func (p *pacer) pinned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 1
}
