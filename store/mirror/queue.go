package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	sent    bool   // and nobody has answered
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
	say    func(context.Context) error // writes the figures into the state; nil: there is none
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
	// announced are the topics of which the state knows that this process copies them.
	announced map[string]bool
}

func newCopier(target store.Store, cfg Config, st *stages) *copier {
	c := &copier{target: target, cfg: cfg, stages: st, announced: map[string]bool{}}
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

// call is a try to append copies. Its id stays while the copies are the same.
type call struct {
	id   string
	last []duplicate // what was sent under it
	send []duplicate
	held []duplicate // of topics that are closed: they wait for what becomes of them
}

// write appends copies until the mirrored store has them, or refuses them, or it is
// too late.
func (c *copier) write(batch []duplicate) {
	try := call{}
	for pause := minPause; ; {
		ctx, cancel := context.WithTimeout(c.giveUp, callTime)
		receipts, err := c.attempt(ctx, &try, batch)
		cancel()
		wait := lookAgain
		if err == nil {
			c.written(try.send, receipts)
			batch, pause = try.held, minPause
		} else {
			batch = slices.Concat(try.send, try.held)
			wait, pause = pause, min(2*pause, maxPause)
		}
		if len(batch) == 0 {
			return
		}
		if err != nil && c.giveUp.Err() == nil {
			c.trouble(err)
		}
		if store.Sleep(c.giveUp, wait) != nil {
			c.dropped(batch, fmt.Errorf("there was no more time: %w", cmp.Or(err, closed(c.giveUp.Err()))))
			return
		}
	}
}

// attempt writes copies, but for those of topics that have been moved meanwhile: there
// they would be carried out as if they were originals. For the same reason nothing is sent
// while a topic is closed: the call might end when it has moved. What is about to be sent
// counts as sent before the stage is asked, so that who closes a topic and then hears of
// nothing that is sent knows that nothing comes.
func (c *copier) attempt(ctx context.Context, try *call, batch []duplicate) ([]store.Receipt, error) {
	c.sending(batch, 1)
	var late []duplicate
	err := c.announce(ctx, batch)
	if err == nil {
		late, err = c.sort(ctx, try, batch)
	}
	if err != nil {
		try.send, try.held = batch, nil
		c.sending(batch, -1)
		return nil, err
	}
	c.sending(try.held, -1)
	c.needless(late)
	if len(try.send) == 0 {
		return nil, nil
	}
	if try.id == "" || !slices.EqualFunc(try.last, try.send, sameCopy) {
		try.id, try.last = pawl.NewID(), try.send
	}
	receipts, err := c.target.Append(store.Accepted(ctx), store.Batch[pawl.Message]{ID: try.id,
		Items: messagesOf(try.send)})
	// What nobody answered may arrive later: it counts until somebody does.
	for i := range try.send {
		try.send[i].sent = err != nil
	}
	c.sending(try.send, -1)
	if err == nil {
		try.id = ""
	}
	return receipts, err
}

// sameCopy reports whether two copies are of one message.
func sameCopy(a, b duplicate) bool { return a.message.ID == b.message.ID && a.topic == b.topic }

// sort says which copies are sent, and which are held; late ones are neither. A stage may
// change meanwhile: what is of one topic stays together, so that no copy gets ahead of one
// that is held.
func (c *copier) sort(ctx context.Context, try *call, batch []duplicate) (late []duplicate, err error) {
	try.send, try.held = nil, nil
	asked := time.Now()
	routes := make(map[string]route, 1)
	for i := range batch {
		r, ok := routes[batch[i].topic]
		if !ok {
			if r, err = c.acting(ctx, batch[i].topic, asked); err != nil {
				return nil, err
			}
			routes[batch[i].topic] = r
		}
		switch {
		case r.away() || r.stage == Off:
			late = append(late, batch[i])
		case r.stage == Closing:
			try.held = append(try.held, batch[i])
		default:
			try.send = append(try.send, batch[i])
		}
	}
	return late, nil
}

// acting is what becomes of the copies of a topic. A topic that was closed before then is
// asked for again: it is to be moved any moment.
func (c *copier) acting(ctx context.Context, topic string, asked time.Time) (route, error) {
	r, err := c.stages.look(ctx, topic)
	if err != nil || r.stage != Closing || c.stages.plans == nil {
		return r, err
	}
	if err := c.stages.read(ctx, asked); err != nil {
		return route{}, err
	}
	return c.stages.route(topic), nil
}

// sending counts copies that are on their way, or will be in a moment, but for those
// that count already.
func (c *copier) sending(batch []duplicate, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		if !batch[i].sent {
			c.topic(batch[i].topic).Sending += n
		}
	}
}

// announce lets the state know of this process before it asks for the stage of a topic
// for its first copy: who has closed a topic, and hears of nobody there, may move it.
func (c *copier) announce(ctx context.Context, batch []duplicate) error {
	if c.say == nil {
		return nil
	}
	c.mu.Lock()
	var unknown []string
	for i := range batch {
		if topic := batch[i].topic; !c.announced[topic] && !slices.Contains(unknown, topic) {
			unknown = append(unknown, topic)
		}
	}
	c.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	if err := c.say(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, topic := range unknown {
		c.announced[topic] = true
	}
	return nil
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
			bad = fmt.Errorf("message %s has no copy: %s has its unique key in the mirrored store", batch[i].message.ID,
				r.DuplicateOf)
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

// dropped counts copies that were not written for want of time. What was sent, and not
// answered, may arrive: it goes on to count as sent.
func (c *copier) dropped(batch []duplicate, err error) {
	c.mu.Lock()
	for i := range batch {
		t := c.topic(batch[i].topic)
		t.Missed++
		c.release(&batch[i])
	}
	if c.closed {
		c.late += len(batch)
	}
	c.stats.LastError = err.Error()
	c.mu.Unlock()
	c.report(fmt.Errorf("%d messages have no copy: %w", len(batch), err))
}

// needless counts copies of topics that are no longer copied. They are not missed: their
// originals are carried out.
func (c *copier) needless(batch []duplicate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		t := c.topic(batch[i].topic)
		t.Late++
		t.Sending--
		c.release(&batch[i])
	}
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
