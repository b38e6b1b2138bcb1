package pipe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/internal/process"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/policy"
)

// Config says how a [Pipe] works. Launcher and Command are required.
type Config struct {
	// Launcher starts the programs.
	Launcher *process.Launcher
	// Command is run with the shell.
	Command string
	// Children is how many are started and kept; 0 is 1.
	Children int
	// InFlight is how many deliveries a child holds at once. 0 derives it from the
	// behaviour of the child: as many as it answers within a moment, or works on
	// concurrently, up to [MaxInFlight].
	InFlight int
	// Rank orders what waits for a child, the lowest first; nil is the order in
	// which it came.
	Rank func(*pawl.Delivery) int64
	// Stderr gets what children write to stderr, and to stdout beside verdicts, a line at
	// a time, each with the child's number before it.
	Stderr *process.Output
	// Logger logs when a child ends or breaks the protocol; nil is slog.Default.
	Logger *slog.Logger
	// CloseWait is how long a child may take to end after its stdin was closed;
	// 0 is 5 seconds.
	CloseWait time.Duration
	// Output, if not nil, gets the member output of a verdict, as JSON, before Handle returns.
	Output func(d *pawl.Delivery, output []byte)
}

// MaxInFlight bounds what a child holds at once.
const MaxInFlight = 256

// Limits of what a child holds and writes.
const (
	maxHeldBytes = 4 << 20  // of several deliveries together
	maxVerdict   = 64 << 20 // of a line
)

// ErrNeverReady is why a [Pipe] gave up, or is failing: the program ends, time and
// again, before it reads anything.
var ErrNeverReady = errors.New("the program ends before it reads anything")

// brokenFor is how long a lane stays closed whose programs were given up.
const brokenFor = time.Second

// startsToGiveUp is how often in a row a program may end unread. One that never
// answered is given up then; one that did is failing until it answers again.
const startsToGiveUp = 5

// Pipe is a handler that hands deliveries to programs that run for long, each a
// line of JSON on stdin, and takes a verdict each from stdout. It is safe for
// concurrent use. Make one with [Start].
//
// A child may hold several deliveries, of different lanes, because the caller of
// Handle starts a lane's next message only after the one before. When a child
// dies, the one delivery that it held has failed. If it held several, they are
// given to a fresh child one by one: the one with which a child dies again is
// found, and the others are not punished for it. What it never read is not held.
type Pipe struct {
	config   Config
	children []*child
	life     sync.WaitGroup
	stop     chan struct{}
	broken   chan struct{} // closed with reason set
	reason   error

	mu       sync.Mutex
	queue    []*call // waiting for room, by rank
	closed   bool
	answered bool  // by any child, ever
	unready  int   // starts that came to nothing, of all children, since the last answer
	failing  error // there were too many of them
	stats    Stats
	up       func() // called when a child is ready
}

// Stats has counts of what went wrong, and the current state.
type Stats struct {
	Restarts int // of children
	Crashed  int // of these, that ended by themselves, and not with exit status 0 after an answer
	Killed   int // of these, that were killed: a delivery's time was over, or they did not answer, or not as agreed
	Stale    int // verdicts for deliveries that the child does not hold
	Bad      int // verdicts that cannot be read
	Stray    int // lines that do not begin like a verdict: the program's log
	Unknown  int // verdicts with members that are unknown
	Regiven  int // deliveries given again after their child ended
	Window   int // deliveries that all children together may hold now
	Held     int // deliveries that they hold
}

// Plus adds what an earlier pipe counted.
func (s Stats) Plus(before Stats) Stats {
	s.Restarts += before.Restarts
	s.Crashed += before.Crashed
	s.Killed += before.Killed
	s.Stale += before.Stale
	s.Bad += before.Bad
	s.Stray += before.Stray
	s.Unknown += before.Unknown
	s.Regiven += before.Regiven
	return s
}

// call is a delivery on its way through a pipe. It is guarded by Pipe.mu, but
// for what does not change.
type call struct {
	d     *pawl.Delivery
	token string
	rank  int64
	line  []byte
	born  time.Time
	until time.Time // its hard deadline
	done  chan outcome

	finished  bool
	cancelled error  // the caller's context ended
	child     *child // that holds it
	begin     int64  // of the line, in what that child was sent
	at        time.Time
	regiven   int
}

type outcome struct {
	verdict *wire.Verdict
	err     error
}

// Start starts the children. Close ends them.
func Start(c Config) *Pipe {
	c.Children = max(c.Children, 1)
	c.InFlight = min(c.InFlight, MaxInFlight)
	c.CloseWait = cmp.Or(c.CloseWait, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	p := &Pipe{config: c, stop: make(chan struct{}), broken: make(chan struct{})}
	for i := range c.Children {
		ch := &child{n: i + 1, pipe: p, held: map[string]*call{}, wake: make(chan struct{}, 1),
			window: newWindow(c.InFlight)}
		p.children = append(p.children, ch)
		p.life.Go(ch.live)
	}
	p.life.Go(p.watch)
	return p
}

// Handle hands d to a child and waits for the verdict. When ctx ends before, the
// child is killed, because nothing else stops its work; what else it held is
// given again.
func (p *Pipe) Handle(ctx context.Context, d *pawl.Delivery) error {
	k := &call{d: d, token: d.Token.String(), born: time.Now(), done: make(chan outcome, 1)}
	k.until = k.born.Add(d.Deadline)
	if p.config.Rank != nil {
		k.rank = p.config.Rank(d)
	}
	if t, ok := ctx.Deadline(); ok {
		k.until = t
	}
	k.line = wire.AppendDelivery(nil, d, k.until, policy.LastAttempt(ctx, policy.KindCommand))
	p.mu.Lock()
	p.place(k)
	p.mu.Unlock()
	select {
	case o := <-k.done:
		return p.settle(o, d)
	case <-ctx.Done():
	}
	p.cancel(k, context.Cause(ctx))
	return p.settle(<-k.done, d)
}

// settle turns a verdict into the result of a handler.
func (p *Pipe) settle(o outcome, d *pawl.Delivery) error {
	if o.err != nil {
		return o.err
	}
	if len(o.verdict.Output) > 0 && p.config.Output != nil {
		p.config.Output(d, o.verdict.Output)
	}
	return o.verdict.Settle(d, policy.KindCommand)
}

// place gives k to the child with the least to do, or lets it wait.
func (p *Pipe) place(k *call) {
	switch {
	case p.closed:
		k.finish(outcome{err: pawl.ErrDrain})
		return
	case p.reason != nil:
		k.finish(outcome{err: pawl.Release(brokenFor, p.reason.Error())})
		return
	}
	var best *child
	if len(p.queue) == 0 {
		for _, c := range p.children {
			if c.fits(k) && (best == nil || len(c.held) < len(best.held)) {
				best = c
			}
		}
	}
	if best == nil {
		p.enqueue(k)
		return
	}
	best.give(k)
}

// enqueue lets k wait, behind all that have its rank. If that is far more than
// there is room for, because something better came beyond the room, the worst is
// given back.
func (p *Pipe) enqueue(k *call) {
	at, _ := slices.BinarySearchFunc(p.queue, k, func(other, k *call) int {
		if other.rank <= k.rank {
			return -1
		}
		return 1
	})
	p.queue = slices.Insert(p.queue, at, k)
	if p.config.Rank != nil && p.free() < -p.atHandLimit() {
		last := len(p.queue) - 1
		p.queue[last].finish(outcome{err: handler.HandBack("released in favour of a better rank")})
		p.queue = slices.Delete(p.queue, last, last+1)
	}
}

// finish ends the call, once.
func (k *call) finish(o outcome) {
	if !k.finished {
		k.finished = true
		k.done <- o
	}
}

// cancel ends a call whose context has ended: at once if no child holds it, and
// else when its child is dead.
func (p *Pipe) cancel(k *call, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := k.child; {
	case k.finished:
	case c == nil:
		p.forget(k)
		k.finish(outcome{err: cause})
	default:
		k.cancelled = cause
		c.kill(errCancelled)
	}
}

// forget takes out a call that waits.
func (p *Pipe) forget(k *call) {
	same := func(other *call) bool { return other == k }
	p.queue = slices.DeleteFunc(p.queue, same)
	for _, c := range p.children {
		c.suspects = slices.DeleteFunc(c.suspects, same)
	}
}

// quickRun is how many messages of a lane a quick child is worth claiming at once.
const quickRun = 8

// atHandLimit is how many may wait beyond the room: two for each child, and what
// they do in a short time. Quick children soon get to them.
func (p *Pipe) atHandLimit() int {
	n := 2 * len(p.children)
	for _, c := range p.children {
		n += c.window.within(250 * time.Millisecond)
	}
	return n
}

// Room returns how many lanes are welcome, those that are here included: those of which
// children take a message at once, and those to be at hand for what they do in a short
// time, lest they wait for a claim. worth is how much room is worth a claim: one lane
// where children are slow, and what they do in a moment where they are quick. run is how
// many messages of each lane should come.
func (p *Pipe) Room() (lanes, worth, run int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.children {
		if c.ready() {
			lanes += c.window.size + c.window.within(atHand)
			worth += c.window.within(quick)
		}
	}
	if worth > 1 {
		return lanes, worth, quickRun
	}
	return lanes, 1, 1
}

// free is how many more lanes are welcome. It can be negative.
func (p *Pipe) free() (lanes int) {
	lanes = -len(p.queue)
	for _, c := range p.children {
		lanes -= len(c.held) + len(c.suspects)
		if c.ready() {
			lanes += c.window.size + c.window.within(atHand)
		}
	}
	return lanes
}

// OnUp sets what is called when a child is ready, or is by now: there is room.
func (p *Pipe) OnUp(f func()) {
	p.mu.Lock()
	p.up = f
	ready := slices.ContainsFunc(p.children, func(c *child) bool { return c.up })
	p.mu.Unlock()
	if ready {
		f()
	}
}

// Broken is closed when the pipe gives up; Err says why.
func (p *Pipe) Broken() <-chan struct{} { return p.broken }

// Err returns why the pipe gave up, an [ErrNeverReady], or nil.
func (p *Pipe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// Failing says why the program does not start: what Err returns, or that one which
// did answer has ended unread some times in a row, an [ErrNeverReady] as well. That
// is over with the next answer of any child, or when one has lasted for longer than the
// longest pause between two starts: there may be nothing to answer.
func (p *Pipe) Failing() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	lasts := func(c *child) bool { return c.up && time.Since(c.began) > maxPause }
	if p.reason == nil && p.failing != nil && slices.ContainsFunc(p.children, lasts) {
		p.failing, p.unready = nil, 0
	}
	return cmp.Or(p.reason, p.failing)
}

// Stats returns what was counted so far.
func (p *Pipe) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for _, c := range p.children {
		s.Window += c.window.size
		s.Held += len(c.held)
	}
	return s
}

// Close ends the children: their stdin is closed, and those that do not end of
// that are asked, then killed. No Handle may be under way.
func (p *Pipe) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	for _, k := range p.queue {
		k.finish(outcome{err: pawl.ErrDrain})
	}
	p.queue = nil
	for _, c := range p.children {
		c.signal()
	}
	p.mu.Unlock()
	close(p.stop)
	p.life.Wait()
}
