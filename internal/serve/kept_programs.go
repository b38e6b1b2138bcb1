package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
)

// keeper keeps programs going: where they never get ready, others are started
// after a pause. One topic of a daemon that fails must not take the others along.
type keeper struct {
	programs *programs
	topic    *config.Topic
	config   pipe.Config
	wake     func()
	done     chan struct{}
	wg       sync.WaitGroup

	mu      sync.Mutex
	current *pipe.Pipe
	past    pipe.Stats // of the pipes before
	reason  error      // why the ones before were given up
	since   time.Time
}

// The pauses before programs that never got ready are started again.
const (
	minRevival = 5 * time.Second
	maxRevival = time.Minute
)

// start implements runner.
func (k *keeper) start(ctx context.Context, s store.Store, wake func()) {
	now := present(ctx, s, k.topic.Name)
	if a := k.topic.Settings.Ageing; a != 0 { // about to be declared
		now.Ageing = a
	}
	k.config = pipe.Config{
		Command: k.topic.Command, Children: k.topic.Concurrency, InFlight: k.topic.InFlight,
		Rank: func(d *pawl.Delivery) int64 { return now.Rank(d.EnqueuedAt.Add(d.Delay), d.Priority) },
	}
	k.wake, k.done = wake, make(chan struct{})
	k.renew()
	k.wg.Go(k.watch)
}

// slots implements runner: how many should run at once is for the pipe to say.
func (k *keeper) slots(children int) int { return pipeSlots(children) }

// resizes implements runner: the number of kept programs needs a restart.
func (k *keeper) resizes() bool { return false }

// renew starts programs, and returns those before them.
func (k *keeper) renew() (before *pipe.Pipe) {
	p := k.programs.pipe(k.config, k.topic.Name)
	p.OnUp(k.wake)
	k.mu.Lock()
	defer k.mu.Unlock()
	if before = k.current; before != nil {
		k.past = before.Stats().Plus(k.past)
	}
	k.current, k.since = p, time.Now()
	return before
}

// stats is what was counted since the daemon began.
func (k *keeper) stats() pipe.Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return pipe.Stats{}
	}
	return k.current.Stats().Plus(k.past)
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
		case <-k.program().Broken():
		case <-k.done:
			return
		}
		k.programs.logger.Error("the programs of a topic do not start; none of its messages are processed",
			slog.String("queue_topic", k.topic.Name), slog.Any("error", k.program().Err()),
			slog.Duration("again_in", pause))
		select {
		case <-time.After(pause):
		case <-k.done:
			return
		}
		k.renew().Close()
		k.wake()
	}
}

func (k *keeper) program() *pipe.Pipe {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// room implements runner.
func (k *keeper) room() *dispatch.Room {
	return &dispatch.Room{Lanes: func() (lanes, worth, run int) { return k.program().Room() }}
}

// Handle hands d to a program.
func (k *keeper) Handle(ctx context.Context, d *pawl.Delivery) error {
	err := k.program().Handle(ctx, d)
	if errors.Is(err, pawl.ErrDrain) && ctx.Err() == nil {
		return handler.HandBack("the program was being restarted")
	}
	return err
}

func (k *keeper) close() {
	if k.done == nil {
		return
	}
	close(k.done)
	k.wg.Wait()
	k.program().Close()
}
