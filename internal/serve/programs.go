package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/store"
)

// programs starts those of handlers, and passes on what they write.
type programs struct {
	launcher       *handler.Launcher
	stdout, stderr *handler.Output
	logger         *slog.Logger
}

// newPrograms says once on the other stream that one cannot be written. Work that is
// done stays done, and what is left goes on: its output is no part of it.
func newPrograms(stdout, stderr io.Writer, logger *slog.Logger) (*programs, error) {
	l, err := handler.NewLauncher()
	if err != nil {
		return nil, err
	}
	p := &programs{launcher: l, logger: logger}
	p.stdout = handler.NewOutput(stdout, func(err error) {
		logger.Warn("what programs print is lost: stdout cannot be written; the work goes on", "error", err)
	})
	p.stderr = handler.NewOutput(stderr, func(err error) {
		if stdout != stderr { // else there is no other
			_, _ = fmt.Fprintf(p.stdout,
				"what programs write to stderr is lost, it cannot be written; the work goes on: %v\n", err)
		}
	})
	return p, nil
}

func (p *programs) close() { p.launcher.Close() }

// exec is a handler that starts a program for every delivery.
func (p *programs) exec(command string) pawl.Handler {
	return exec.New(exec.Config{Command: command, Launcher: p.launcher, Stdout: p.stdout, Stderr: p.stderr})
}

// pipe starts programs that are kept, for some topics.
func (p *programs) pipe(c pipe.Config, topics ...string) *pipe.Pipe {
	c.Launcher, c.Stderr = p.launcher, p.stderr
	c.Logger = p.logger.With(slog.String("queue_topic", strings.Join(topics, ",")))
	return pipe.Start(c)
}

// pipeSlots is how many handlers of kept programs may run at once: how many should
// is for the gate to say.
func pipeSlots(children int) int { return 2 * children * pipe.MaxInFlight }

// ranks returns the rank of deliveries as the store has it, with the ageing that
// topics have now.
func ranks(ctx context.Context, s store.Store, names ...string) func(*pawl.Delivery) int64 {
	topics := map[string]store.Topic{}
	for _, name := range names {
		topics[name] = present(ctx, s, name)
	}
	return func(d *pawl.Delivery) int64 {
		t := topics[d.Topic]
		return t.Rank(d.EnqueuedAt.Add(d.Delay), d.Priority)
	}
}

// present is a topic as it is now. One that cannot be read, or is not there yet,
// is taken for a new one: the dispatcher will tell.
func present(ctx context.Context, s store.Store, name string) store.Topic {
	if settings, ok := store.As[store.Topics](s); ok {
		if t, err := settings.Topic(ctx, name); err == nil {
			return t
		}
	}
	return store.NewTopic(name)
}
