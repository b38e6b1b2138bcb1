package pipe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/internal/process"
	"github.com/pawl-dev/pawl/policy"
)

// Why we kill a child.
var (
	errCancelled = errors.New("a delivery's time is over")
	errStalled   = errors.New("it does not answer")
	errMute      = errors.New("it closed its stdout, so it cannot answer")
	errDeaf      = errors.New("it closed its stdin, so it gets no deliveries")
)

// muteWait is how long a program may live on without stdout, or without stdin when it holds nothing, as many close
// them at their end.
const muteWait = 2 * time.Second

// child is one of the programs of a pipe, through all its starts. It is guarded
// by Pipe.mu.
type child struct {
	n        int
	pipe     *Pipe
	window   window
	up       bool
	process  *process.Process
	began    time.Time
	cause    error            // why we killed it; nil: we did not
	held     map[string]*call // by token
	bytes    int              // of their lines
	suspects []*call          // to be given one by one
	out      []byte           // to be written
	sent     int64            // bytes that went into out since the start
	answers  int              // since the start
	wake     chan struct{}    // something is to be written, or stdin to be closed
	deaf     bool             // it has closed its stdin
	deafRead int64            // how much it had read by then
	deafAt   time.Time        // when it last held something that it may answer, since then
}

// live starts the program again and again until the pipe is closed.
func (c *child) live() {
	for failures := 0; ; {
		began := time.Now()
		end := c.run()
		switch {
		case end.answers > 0:
			failures = 0
		case time.Since(began) > maxPause:
			failures = 1
		default:
			failures++
		}
		pause := min(minPause<<min(failures, 10), maxPause)
		if end.voluntary && end.answers > 0 {
			pause = 0 // it had enough, as some do after so many messages
		}
		if !c.pipe.restarts(c, end, pause) {
			return
		}
		select {
		case <-c.pipe.stop:
			return
		case <-c.pipe.broken:
			return
		case <-time.After(pause):
		}
	}
}

// Pauses before a program is started again.
const (
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
)

// ending says how a child ended.
type ending struct {
	how       string // with what it said last
	pid       int    // 0: it did not even start
	voluntary bool   // exit status 0
	answers   int
	held      int  // deliveries
	unread    bool // it read nothing of what it was sent
	cause     error
}

// run starts the program and stays with it to its end.
func (c *child) run() ending {
	cmd := process.Shell(c.pipe.config.Command)
	cmd.Env = process.Environ()
	pipes, err := process.OpenStreams(cmd, true)
	if err != nil {
		return ending{how: err.Error(), unread: true}
	}
	program, err := c.pipe.config.Launcher.Start(cmd)
	pipes.Started()
	if err != nil {
		pipes.Close()
		return ending{how: err.Error(), unread: true}
	}
	c.rise(program)
	said := &process.Tail{}
	heard := make(chan struct{})
	go func() {
		process.Read(pipes.Stderr, &process.Lines{Prefix: c.prefix(), Out: c.pipe.config.Stderr,
			Tail: said})
		close(heard)
	}()
	written := make(chan int64, 1)
	go func() { written <- c.write(pipes.Stdin) }()
	exited := make(chan *os.ProcessState, 1)
	go func() {
		state := program.Wait()
		pipes.Ended()
		exited <- state
	}()
	if trouble := c.listen(pipes.Stdout); trouble != nil {
		c.pipe.mu.Lock()
		c.kill(trouble)
		c.pipe.mu.Unlock()
	}
	state := c.last(exited)
	c.lower()
	_ = pipes.Stdin.SetWriteDeadline(time.Now())
	read := <-written - int64(process.Unread(pipes.Stdin))
	<-heard // its last words are the reason
	pipes.Close()
	e := c.fall(said.Reason(process.Describe(state)), state != nil && state.Success(), read)
	e.pid = cmd.Process.Pid
	return e
}

// last waits for the end of a program that has closed its stdout, and kills one that lives on.
func (c *child) last(exited <-chan *os.ProcessState) *os.ProcessState {
	select {
	case state := <-exited:
		return state
	case <-time.After(muteWait):
	}
	c.pipe.mu.Lock()
	c.kill(errMute)
	c.pipe.mu.Unlock()
	return <-exited
}

// prefix is what begins each line of the program's log.
func (c *child) prefix() string { return fmt.Sprintf("[%d] ", c.n) }

// rise makes c ready for deliveries.
func (c *child) rise(program *process.Process) {
	p := c.pipe
	p.mu.Lock()
	c.up, c.process, c.began, c.cause = true, program, time.Now(), nil
	c.out, c.sent, c.answers, c.deaf = c.out[:0], 0, 0, false
	c.window.restart()
	c.feed()
	up := p.up
	p.mu.Unlock()
	if up != nil {
		up()
	}
}

// lower ends the writing to a child that has ended.
func (c *child) lower() {
	c.pipe.mu.Lock()
	defer c.pipe.mu.Unlock()
	c.up = false
	c.signal()
}

// ready reports whether c gets deliveries.
func (c *child) ready() bool { return c.up && c.cause == nil && !c.deaf }

// fits reports whether c can take k now.
func (c *child) fits(k *call) bool {
	return c.ready() && len(c.suspects) == 0 && len(c.held) < c.window.size &&
		(len(c.held) == 0 || c.bytes+len(k.line) <= maxHeldBytes)
}

// give writes k to the child.
func (c *child) give(k *call) {
	k.child, k.begin, k.at = c, c.sent, time.Now()
	c.out = append(c.out, k.line...)
	c.sent += int64(len(k.line))
	c.bytes += len(k.line)
	c.held[k.token] = k
	c.signal()
}

func (c *child) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// feed gives the child what it can take: suspects one by one, else what waits.
func (c *child) feed() {
	if !c.ready() {
		return
	}
	if len(c.suspects) > 0 {
		if len(c.held) == 0 {
			k := c.suspects[0]
			c.suspects = c.suspects[1:]
			c.give(k)
		}
		return
	}
	q := &c.pipe.queue
	for len(*q) > 0 && c.fits((*q)[0]) {
		k := (*q)[0]
		(*q)[0] = nil
		*q = (*q)[1:]
		c.give(k)
	}
}

// feed gives what waits to all children that can take it.
func (p *Pipe) feed() {
	for _, c := range p.children {
		c.feed()
	}
}

// kill kills the child; the first cause counts.
func (c *child) kill(cause error) {
	if c.up && c.cause == nil {
		c.cause = cause
		c.process.Kill()
	}
}

// write writes to stdin what comes to be in out, and returns how many bytes went
// through. It closes stdin when the pipe is closed.
func (c *child) write(stdin *os.File) (n int64) {
	var spare []byte
	for {
		c.pipe.mu.Lock()
		b, closed, up := c.out, c.pipe.closed, c.up
		if len(b) > 0 {
			c.out = spare[:0] // two buffers in turn: what is being written is not appended to
		}
		c.pipe.mu.Unlock()
		if len(b) > 0 {
			m, err := stdin.Write(b)
			n += int64(m)
			if err != nil {
				c.shut(n - int64(process.Unread(stdin)))
				return n
			}
			if spare = b; cap(spare) > maxHeldBytes {
				spare = nil
			}
			continue
		}
		if closed || !up {
			break
		}
		<-c.wake
	}
	c.pipe.mu.Lock()
	program, up := c.process, c.up
	c.pipe.mu.Unlock()
	if up {
		_ = stdin.Close()
		time.AfterFunc(c.pipe.config.CloseWait, program.End) // it is asked to end, and then killed
	}
	return n
}

// shut takes note that the program has closed its stdin: it gets nothing more, and others get what it has not read. It
// may answer the rest, and end; one that lives on is killed.
func (c *child) shut(read int64) {
	p := c.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.ready() {
		return
	}
	c.deaf, c.deafRead, c.deafAt = true, read, time.Now()
	for _, k := range c.inOrder() {
		if k.begin >= read {
			c.drop(k)
			p.enqueue(k)
		}
	}
	p.feed()
}

// useless reports whether a program has been without stdin for too long with nothing that it could answer.
func (c *child) useless(now time.Time) bool {
	for _, k := range c.held {
		if k.begin+int64(len(k.line))-1 <= c.deafRead { // the end of the line may be missing
			c.deafAt = now
		}
	}
	return c.deaf && now.Sub(c.deafAt) > muteWait
}

// fall settles what the child held when it ended. read is how much of what it was
// sent it has read.
func (c *child) fall(how string, voluntary bool, read int64) ending {
	p := c.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	e := ending{how: how, voluntary: voluntary, answers: c.answers, held: len(c.held), unread: read <= 0,
		cause: c.cause}
	var touched, untouched []*call
	for _, k := range c.inOrder() {
		k.child = nil
		switch {
		case k.cancelled != nil:
			k.finish(outcome{err: k.cancelled})
		case k.begin < read:
			touched = append(touched, k)
		default:
			untouched = append(untouched, k)
		}
	}
	clear(c.held)
	c.bytes, c.out = 0, nil
	blamed := len(touched) == 1 && c.cause != errCancelled && c.cause != errStalled &&
		(!voluntary || touched[0].regiven > 0)
	if blamed {
		touched[0].finish(outcome{err: c.blame(how)})
		touched = nil
	}
	p.regive(c, touched, untouched)
	return e
}

// blame is the failure of the delivery with which a child died.
func (c *child) blame(how string) error {
	err := errors.New(how)
	if c.cause != nil {
		err = fmt.Errorf("the program broke the protocol: %w", c.cause)
	}
	return pawl.WithAttrs(pawl.OfKind(policy.KindCommand, err), map[string]string{handler.AttrEnded: "true"})
}

// inOrder returns what c holds in the order in which it was given.
func (c *child) inOrder() []*call {
	return slices.SortedFunc(maps.Values(c.held), func(a, b *call) int { return cmp.Compare(a.begin, b.begin) })
}

// regive keeps for one by one what the child had read, the oldest last if it did
// not answer, and lets the rest wait like everything else.
func (p *Pipe) regive(c *child, touched, untouched []*call) {
	for _, k := range touched {
		k.regiven++
	}
	p.stats.Regiven += len(touched)
	if c.cause == errStalled && len(touched) > 1 {
		touched = append(touched[1:], touched[0])
	}
	c.suspects = append(touched, c.suspects...)
	for _, k := range untouched {
		p.enqueue(k)
	}
	p.feed()
	if p.closed || p.reason != nil {
		for _, k := range slices.Concat(c.suspects, p.queue) {
			k.finish(outcome{err: handler.HandBack("the worker ended")})
		}
		c.suspects, p.queue = nil, nil
	}
}

// restarts reports whether c is to be started again, and says so.
func (p *Pipe) restarts(c *child, e ending, pause time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.reason != nil {
		return false
	}
	p.stats.Restarts++
	args := []any{"child", c.n, "pid", e.pid, "command", p.config.Command, "how", e.how, "held", e.held,
		"again_in", pause}
	what, log := "program ended", p.config.Logger.Warn
	counted := p.count(e)
	switch {
	case e.cause != nil:
		p.stats.Killed++
	case !e.voluntary || e.answers == 0:
		p.stats.Crashed++
	}
	switch {
	case e.voluntary && e.answers > 0:
		log = p.config.Logger.Info
	case counted && p.failing != nil && p.answered:
		what, log = "the program no longer starts: it ends before it reads anything", p.config.Logger.Error
		args = append(args, "times", p.unready)
	}
	if e.cause != nil {
		args = append(args, "killed_because", e.cause)
	}
	log(what, args...)
	if p.failing == nil || p.answered { // what worked once may get well
		return true
	}
	p.reason = p.failing
	for _, other := range p.children {
		other.kill(errCancelled)
		p.queue = append(p.queue, other.suspects...)
		other.suspects = nil
	}
	for _, k := range p.queue {
		k.finish(outcome{err: pawl.Release(0, p.reason.Error())})
	}
	p.queue = nil
	close(p.broken)
	return false
}

// count counts a start that came to nothing, and reports whether this was one. A
// program that has worked may leave when there is nothing to do.
func (p *Pipe) count(e ending) bool {
	idle := e.voluntary && e.held == 0 && p.answered
	if !e.unread || e.cause != nil && e.cause != errDeaf || idle {
		return false
	}
	p.unready++
	if p.unready >= startsToGiveUp {
		p.failing = fmt.Errorf("%w, %d times: %s", ErrNeverReady, p.unready, e.how)
	}
	return true
}
