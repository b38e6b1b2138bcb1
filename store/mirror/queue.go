package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Bounds of a call to the mirrored store, and of the pause after one that failed.
const (
	callCount = 1_000
	callBytes = 8 << 20
	minPause  = 50 * time.Millisecond
	maxPause  = 5 * time.Second
	callTime  = time.Minute // for a call
)

// duplicate is a message that waits to be copied.
type duplicate struct {
	message pawl.Message
	size    int
	since   time.Time
	topic   string // in the primary
}

// queue is the copies of a share of the lanes, in the order of appending. It is
// written by one goroutine.
type queue struct {
	mu      sync.Mutex // never held across a wait
	waiting []duplicate
	news    chan struct{} // capacity one
}

// copier writes copies to the mirrored store.
type copier struct {
	target store.Store
	cfg    Config
	stages *stages
	queues []*queue
	wg     sync.WaitGroup
	// ending is done when no more comes: what waits is to be written now. giveUp is
	// done when that has taken too long.
	ending, giveUp context.Context
	end, cut       context.CancelFunc

	mu       sync.Mutex // never held across a wait; taken before a queue's
	stats    Stats
	count    int // of what waits in all queues, and is on its way
	bytes    int
	ended    int64 // copies that were written or given up
	closed   bool  // nothing is put into a queue any more
	late     int   // messages that have got no copy since then, for want of time
	reported time.Time
}

func newCopier(target store.Store, cfg Config, st *stages) *copier {
	c := &copier{target: target, cfg: cfg, stages: st}
	c.stats.Topics = map[string]*TopicStats{}
	c.ending, c.end = context.WithCancel(context.Background())
	c.giveUp, c.cut = context.WithCancel(context.Background())
	for range cfg.Shards {
		q := &queue{news: make(chan struct{}, 1)}
		c.queues = append(c.queues, q)
		c.wg.Go(func() { c.run(q) })
	}
	return c
}

// add puts a copy into its queue. It never waits; where there is no room the message
// has no copy.
func (c *copier) add(p *Plan, m pawl.Message) {
	topic := m.Topic
	if !p.Samples(&m) {
		c.note(topic, func(t *TopicStats) { t.Skipped++ })
		return
	}
	shard := share(&m)
	m.Topic = p.InMirrored()
	if c.cfg.Transform != nil && !c.cfg.Transform(&m) {
		c.note(topic, func(t *TopicStats) { t.Skipped++ })
		return
	}
	d := duplicate{message: m, size: m.Size(), since: time.Now(), topic: topic}
	q := c.queues[shard%uint32(len(c.queues))]
	if why := c.enqueue(q, d); why != "" {
		c.report(fmt.Errorf("message %s has no copy: %s; the mirror is not complete", d.message.ID, why))
		return
	}
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// enqueue counts a copy in and puts it into its queue, or says why not. It is one step:
// whoever closes finds in the queues all that was counted in.
func (c *copier) enqueue(q *queue, d duplicate) (why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topic(d.topic)
	t.Offered++
	switch {
	case c.closed:
		t.Missed++
		c.late++
		return "the mirror is closed"
	case c.count >= c.cfg.Count || c.count > 0 && c.bytes+d.size > c.cfg.Bytes:
		t.Missed++
		return "the queue of the mirror is full"
	}
	c.count++
	c.bytes += d.size
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, d)
	return ""
}

// run writes what comes into a queue.
func (c *copier) run(q *queue) {
	for {
		select {
		case <-q.news:
		case <-c.ending.Done():
			if q.empty() {
				return
			}
		}
		for batch := q.take(); len(batch) > 0; batch = q.take() {
			c.write(batch)
		}
	}
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
}

// take takes the first copies, as many as go into a call.
func (q *queue) take() []duplicate {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && n < callCount && (n == 0 || size+q.waiting[n].size <= callBytes) {
		size += q.waiting[n].size
		n++
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if len(q.waiting) == 0 {
		q.waiting = nil // so that what was written is let go
	}
	return batch
}

// write appends copies until the mirrored store has them, or refuses them, or it is
// too late.
func (c *copier) write(batch []duplicate) {
	id := pawl.NewID()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		ctx, cancel := context.WithTimeout(c.giveUp, callTime)
		rest, receipts, err := c.attempt(ctx, id, batch)
		cancel()
		batch = rest
		switch {
		case err == nil:
			c.written(batch, receipts)
			return
		case c.giveUp.Err() != nil:
			c.dropped(batch, fmt.Errorf("there was no more time: %w", err), true)
			return
		}
		c.trouble(err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.giveUp.Done():
			timer.Stop()
			c.dropped(batch, fmt.Errorf("there was no more time: %w", err), true)
			return
		}
	}
}

// attempt writes copies, but for those of topics that have been moved meanwhile: there
// they would be carried out as if they were originals. It returns the others.
func (c *copier) attempt(ctx context.Context, id string, batch []duplicate) ([]duplicate, []store.Receipt, error) {
	var rest, late []duplicate
	asked := time.Now()
	for i := range batch {
		r, err := c.stages.look(ctx, batch[i].topic)
		if err == nil && r.stage == Closing && c.stages.plans != nil { // to be moved any moment
			if err = c.stages.read(ctx, asked); err == nil {
				r = c.stages.route(batch[i].topic)
			}
		}
		if err != nil {
			return batch, nil, err
		}
		if r.away() || r.stage == Off {
			late = append(late, batch[i])
		} else {
			rest = append(rest, batch[i])
		}
	}
	if len(late) > 0 {
		c.dropped(late, errors.New("the topic is not copied any more"), false)
	}
	if len(rest) == 0 {
		return nil, nil, nil
	}
	receipts, err := c.target.Append(ctx, store.Batch[pawl.Message]{ID: id, Items: messagesOf(rest)})
	return rest, receipts, err
}

// messagesOf are the messages of copies; what they were put off has been waited for in
// part.
func messagesOf(batch []duplicate) []pawl.Message {
	items := make([]pawl.Message, len(batch))
	for i := range batch {
		items[i] = batch[i].message
		if d := items[i].Delay; d > 0 {
			items[i].Delay = max(0, d-time.Since(batch[i].since))
		}
	}
	return items
}

// written counts what became of copies.
func (c *copier) written(batch []duplicate, receipts []store.Receipt) {
	var bad error
	c.mu.Lock()
	now := time.Now()
	for i := range batch {
		t := c.topic(batch[i].topic)
		c.release(&batch[i])
		c.stats.Slowest = max(c.stats.Slowest, now.Sub(batch[i].since))
		switch r := receipts[i]; {
		case r.Err != nil:
			t.Refused++
			bad = fmt.Errorf("message %s has no copy: the mirrored store refuses it: %w", batch[i].message.ID, r.Err)
			c.stats.LastError = bad.Error()
		case r.DuplicateOf == batch[i].message.ID:
			t.There++
		case r.DuplicateOf != "":
			t.Refused++
			bad = fmt.Errorf("message %s has no copy: %s has its unique key in the mirrored store", batch[i].message.ID, r.DuplicateOf)
			c.stats.LastError = bad.Error()
		default:
			t.Written++
		}
	}
	c.mu.Unlock()
	if bad != nil {
		c.report(bad)
	}
}

// dropped counts copies that were not written; missing are those that somebody wanted.
func (c *copier) dropped(batch []duplicate, err error, missing bool) {
	c.mu.Lock()
	for i := range batch {
		c.topic(batch[i].topic).Missed++
		c.release(&batch[i])
	}
	if c.closed && missing {
		c.late += len(batch)
	}
	c.stats.LastError = err.Error()
	c.mu.Unlock()
	c.report(fmt.Errorf("%d messages have no copy: %w", len(batch), err))
}

// release counts a copy out. The caller has mu.
func (c *copier) release(d *duplicate) {
	c.count--
	c.ended++
	c.bytes -= d.size
}

func (c *copier) trouble(err error) {
	c.mu.Lock()
	c.stats.Retries++
	c.stats.LastError = err.Error()
	c.mu.Unlock()
	c.report(fmt.Errorf("copies wait: %w", err))
}

// report tells of a problem, seldom.
func (c *copier) report(err error) {
	if c.cfg.Report == nil {
		return
	}
	c.mu.Lock()
	now := time.Now()
	due := c.reported.IsZero() || now.Sub(c.reported) >= time.Second
	if due {
		c.reported = now
	}
	c.mu.Unlock()
	if due {
		c.cfg.Report(err)
	}
}

// flush waits until what waits now is written, or was given up.
func (c *copier) flush(ctx context.Context) error {
	c.mu.Lock()
	until := c.ended + int64(c.count)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		done := c.ended >= until || c.count == 0
		c.mu.Unlock()
		if done {
			return nil
		}
		timer := time.NewTimer(flushLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &store.Error{Op: "flush mirror", Err: ctx.Err()}
		}
	}
}

const flushLook = 5 * time.Millisecond

// close writes what waits, for as long as there is time.
func (c *copier) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	timer := time.AfterFunc(c.cfg.CloseWait, c.cut)
	defer timer.Stop()
	c.end()
	c.wg.Wait() // the queues are empty
	c.cut()
}

// missing is the error of messages that got no copy because there was no more time.
func (c *copier) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late > 0 {
		return &store.Error{Op: "close mirror", Code: store.ErrUnavailable, Err: fmt.Errorf("%d messages have no copy", c.late), Hint: "compare the stores"}
	}
	return nil
}
