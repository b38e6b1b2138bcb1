package mirror

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Bounds of a call to the mirrored store, and of the pause after one that failed.
const (
	shards    = 8 // queues, each with a call of its own
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
	stats    map[string]*TopicStats
	count    int // of what waits in all queues, and is on its way
	bytes    int
	ended    int64 // copies that were written or given up
	closed   bool  // nothing is put into a queue any more
	late     int   // messages that have got no copy since then, for want of time
	reported time.Time
}

func newCopier(target store.Store, cfg Config, st *stages) *copier {
	c := &copier{target: target, cfg: cfg, stages: st, stats: map[string]*TopicStats{}}
	c.ending, c.end = context.WithCancel(context.Background())
	c.giveUp, c.cut = context.WithCancel(context.Background())
	for range shards {
		q := &queue{news: make(chan struct{}, 1)}
		c.queues = append(c.queues, q)
		c.wg.Go(func() { c.run(q) })
	}
	return c
}

// topic returns the figures of a topic. The caller has mu.
func (c *copier) topic(name string) *TopicStats {
	t := c.stats[name]
	if t == nil {
		t = &TopicStats{}
		c.stats[name] = t
	}
	return t
}

func (c *copier) note(topic string, change func(*TopicStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.topic(topic))
}

// add puts a copy into its queue. It never waits; where there is no room the message
// has no copy.
func (c *copier) add(m pawl.Message) {
	q := c.queues[share(&m)%uint32(len(c.queues))]
	if why := c.enqueue(q, duplicate{message: m, size: m.Size(), since: time.Now()}); why != "" {
		c.report(fmt.Errorf("message %s has no copy: %s; the mirror is not complete", m.ID, why))
		return
	}
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// share is a number that all messages of a lane have in common.
func share(m *pawl.Message) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.Topic)) // a hash never fails
	_, _ = h.Write([]byte{0})
	if m.Key != nil {
		_, _ = h.Write(m.Key)
	} else {
		_, _ = h.Write([]byte(m.ID))
	}
	return h.Sum32()
}

// enqueue counts a copy in and puts it into its queue, or says why not. It is one step:
// whoever closes finds in the queues all that was counted in.
func (c *copier) enqueue(q *queue, d duplicate) (why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topic(d.message.Topic)
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

// write appends copies until the mirrored store has them, or refuses them, or nobody needs
// them, or it is too late. A call that is repeated keeps its id.
func (c *copier) write(batch []duplicate) {
	id, sent := "", 0
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if batch = c.needed(batch); len(batch) == 0 {
			return
		}
		if id == "" || len(batch) != sent {
			id, sent = pawl.NewID(), len(batch)
		}
		ctx, cancel := context.WithTimeout(c.giveUp, callTime)
		receipts, err := c.target.Append(backend.Accepted(ctx),
			store.Batch[pawl.Message]{ID: id, Items: messagesOf(batch)})
		cancel()
		if err == nil {
			c.written(batch, receipts)
			return
		}
		if c.giveUp.Err() == nil {
			c.fail(batch, fmt.Errorf("copies wait: %w", err), func(*TopicStats) {})
		}
		if store.Sleep(c.giveUp, pause) != nil {
			c.fail(batch, fmt.Errorf("%d messages have no copy: there was no more time: %w", len(batch), err),
				func(t *TopicStats) { t.Missed++ })
			c.release(batch, c.isClosed())
			return
		}
	}
}

// needed are those copies whose topics are still copied. The others are not missed: their
// originals are carried out.
func (c *copier) needed(batch []duplicate) (left []duplicate) {
	var late []duplicate
	for i := range batch {
		if c.stages.route(batch[i].message.Topic).copied() {
			left = append(left, batch[i])
		} else {
			late = append(late, batch[i])
		}
	}
	for i := range late {
		c.note(late[i].message.Topic, func(t *TopicStats) { t.Late++ })
	}
	c.release(late, false)
	return left
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
	for i := range batch {
		m, r := &batch[i].message, receipts[i]
		switch {
		case r.Err == nil && r.DuplicateOf == "":
			c.note(m.Topic, func(t *TopicStats) { t.Written++ })
			continue
		case r.DuplicateOf == m.ID:
			c.note(m.Topic, func(t *TopicStats) { t.There++ })
			continue
		case r.Err == nil:
			r.Err = errors.New(r.DuplicateOf + " has its unique key in the mirrored store")
		}
		c.fail(batch[i:i+1], fmt.Errorf("message %s has no copy: the mirrored store refuses it: %w", m.ID, r.Err),
			func(t *TopicStats) { t.Refused++ })
	}
	c.release(batch, false)
}

// fail notes a problem of copies, and reports it.
func (c *copier) fail(batch []duplicate, err error, count func(*TopicStats)) {
	for i := range batch {
		c.note(batch[i].message.Topic, func(t *TopicStats) {
			t.LastError = err.Error()
			count(t)
		})
	}
	c.report(err)
}

// release counts copies out; late ones were not written because the mirror is closed.
func (c *copier) release(batch []duplicate, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		c.bytes -= batch[i].size
	}
	c.count -= len(batch)
	c.ended += int64(len(batch))
	if late {
		c.late += len(batch)
	}
}

func (c *copier) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// report tells of a problem, seldom.
func (c *copier) report(err error) {
	if c.cfg.Report == nil {
		return
	}
	c.mu.Lock()
	now := time.Now()
	due := now.Sub(c.reported) >= time.Second
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
		if store.Sleep(ctx, flushLook) != nil {
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

// missing is the error of messages without a copy because time ran out.
func (c *copier) missing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late > 0 {
		return &store.Error{Op: "close mirror", Code: store.ErrUnavailable,
			Err: fmt.Errorf("%d messages have no copy", c.late), Hint: "compare the stores"}
	}
	return nil
}
