package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/program"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/store"
)

// carrier carries out one topic of a daemon.
type carrier struct {
	topic  config.Topic
	gate   gate
	limit  *dispatch.Limiter // its own
	limits []*dispatch.Limiter

	exec   pawl.Handler  // of a program for each delivery
	hook   *webhook.Hook // of a web service
	keeper *keeper       // of kept programs
}

func newCarrier(t config.Topic, p *programs, replies *webhook.Replies, all limits) (*carrier, error) {
	c := &carrier{topic: t}
	var err error
	if c.limit, c.limits, err = all.of(&t); err != nil {
		return nil, err
	}
	switch t.Handler {
	case config.Exec:
		c.exec = p.exec(t.Command)
	case config.HTTP:
		c.hook, err = webhook.New(webhook.Config{URL: t.URL, Method: t.Method, Headers: t.Headers, Timeout: t.Timeout, Replies: replies})
	case config.Pipe:
		c.keeper = &keeper{programs: p, topic: t.Name}
		c.gate.room = c.keeper.room
	}
	return c, err
}

// dispatched is the topic as the dispatcher knows it.
func (c *carrier) dispatched() dispatch.Topic {
	t := &c.topic
	d := dispatch.Topic{Name: t.Name, Handler: c, Concurrency: t.Concurrency, Reserved: t.Reserved, Lease: t.Lease, Settings: t.Settings, Limits: c.limits}
	if c.keeper != nil {
		d.Concurrency = pipeSlots(t.Concurrency)
	}
	return d
}

// Handle implements pawl.Handler.
func (c *carrier) Handle(ctx context.Context, d *pawl.Delivery) error {
	switch {
	case c.exec != nil:
		return c.exec.Handle(ctx, d)
	case c.hook != nil:
		return c.hook.Handle(ctx, d)
	}
	c.gate.begun()
	return c.keeper.Handle(ctx, d)
}

// start starts kept programs.
func (c *carrier) start(ctx context.Context, s store.Store) {
	if c.keeper == nil {
		return
	}
	now := present(ctx, s, c.topic.Name)
	if a := c.topic.Settings.Ageing; a != 0 { // about to be declared
		now.Ageing = a
	}
	c.keeper.begin(program.PipeConfig{
		Command: c.topic.Command, Children: c.topic.Concurrency, InFlight: c.topic.InFlight,
		Rank: func(d *pawl.Delivery) int64 { return now.Rank(d.EnqueuedAt.Add(d.Delay), d.Priority) },
	}, c.gate.wake)
}

// failing says why the topic is not carried out; nil if it is.
func (c *carrier) failing() error {
	if c.keeper == nil {
		return nil
	}
	return c.keeper.failing()
}

// close ends what start began. No Handle may be under way.
func (c *carrier) close() {
	if c.keeper != nil {
		c.keeper.end()
	}
	if c.hook != nil {
		c.hook.Close()
	}
}

// keeper keeps programs going: where they never get ready, others are started
// after a pause. One topic of a daemon that fails must not take the others along.
type keeper struct {
	programs *programs
	topic    string
	config   program.PipeConfig
	wake     func()
	done     chan struct{}
	wg       sync.WaitGroup

	mu      sync.Mutex
	current *program.Pipe
	reason  error // why the ones before were given up
	since   time.Time
}

// The pauses before programs that never got ready are started again.
const (
	minRevival = 5 * time.Second
	maxRevival = time.Minute
)

func (k *keeper) begin(c program.PipeConfig, wake func()) {
	k.config, k.wake, k.done = c, wake, make(chan struct{})
	k.renew()
	k.wg.Go(k.watch)
}

// renew starts programs, and returns those before them.
func (k *keeper) renew() (before *program.Pipe) {
	p := k.programs.pipe(k.config)
	p.OnRoom(k.wake)
	k.mu.Lock()
	defer k.mu.Unlock()
	before, k.current, k.since = k.current, p, time.Now()
	return before
}

// failing says why no program carries anything out. Those that were just started must first
// show that they last.
func (k *keeper) failing() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.current.Failing(); err != nil {
		k.reason = err
	} else if time.Since(k.since) > minRevival {
		k.reason = nil
	}
	return k.reason
}

func (k *keeper) watch() {
	for pause := minRevival; ; pause = min(2*pause, maxRevival) {
		select {
		case <-k.pipe().Broken():
		case <-k.done:
			return
		}
		k.programs.logger.Error("the programs of a topic do not start; nothing of it is carried out",
			slog.String("queue_topic", k.topic), slog.Any("error", k.pipe().Err()), slog.Duration("again_in", pause))
		select {
		case <-time.After(pause):
		case <-k.done:
			return
		}
		k.renew().Close()
		k.wake()
	}
}

func (k *keeper) pipe() *program.Pipe {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

func (k *keeper) room() (lanes, run int) { return k.pipe().Room() }

// Handle hands d to a program.
func (k *keeper) Handle(ctx context.Context, d *pawl.Delivery) error {
	err := k.pipe().Handle(ctx, d)
	if errors.Is(err, pawl.ErrDrain) && ctx.Err() == nil {
		return program.HandBack("the program was just being started again")
	}
	return err
}

func (k *keeper) end() {
	if k.done == nil {
		return
	}
	close(k.done)
	k.wg.Wait()
	k.pipe().Close()
}
