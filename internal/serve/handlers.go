package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
	hook "github.com/pawl-dev/pawl/handler/http"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
)

// runner is the handler of a topic, with its life around it.
type runner interface {
	pawl.Handler
	// start begins what the handler needs; wake is to be called when claims are worth
	// a try again. No Handle comes before.
	start(ctx context.Context, s store.Store, wake func())
	// room is what the handler takes; nil: slots say enough.
	room() *dispatch.Room
	// slots is how many Handle may run at once, of a concurrency that was asked for.
	slots(concurrency int) int
	// resizes reports whether a reload may change the concurrency.
	resizes() bool
	// failing says why nothing is carried out; nil if it is.
	failing() error
	// close ends what start began. No Handle is under way.
	close()
}

// handlerKinds are the kinds of handlers that a topic can have, a line each. Package config has their keys.
var handlerKinds = map[string]func(*config.Topic, *programs) (runner, error){
	config.Exec: func(t *config.Topic, p *programs) (runner, error) {
		return plain{Handler: p.exec(t.Command)}, nil
	},
	config.Pipe: func(t *config.Topic, p *programs) (runner, error) {
		return &keeper{programs: p, topic: t}, nil
	},
	config.HTTP: func(t *config.Topic, p *programs) (runner, error) {
		h, err := hook.New(hook.Config{
			URL: t.URL, Method: t.Method, Headers: t.Headers, Timeout: t.Timeout,
			Logger: p.forTopics(t.Name),
		})
		if err != nil {
			return nil, err
		}
		return plain{h, h.Close}, nil
	},
}

// newRunner makes the handler of a topic.
func newRunner(t *config.Topic, p *programs) (runner, error) {
	build, ok := handlerKinds[t.Handler]
	if !ok {
		return nil, fmt.Errorf("there is no handler %q", t.Handler)
	}
	return build(t, p)
}

// plain is a handler that needs no more than to be called.
type plain struct {
	pawl.Handler
	end func() // nil: nothing is to be closed
}

func (plain) start(context.Context, store.Store, func()) {}
func (plain) room() *dispatch.Room                       { return nil }
func (plain) slots(concurrency int) int                  { return concurrency }
func (plain) resizes() bool                              { return true }
func (plain) failing() error                             { return nil }

func (p plain) close() {
	if p.end != nil {
		p.end()
	}
}

// servedTopic is one topic that a daemon carries out.
type servedTopic struct {
	runner
	topic  config.Topic
	limit  *limit // its own
	limits []*dispatch.Limiter
}

func newServedTopic(t config.Topic, p *programs, all limits) (*servedTopic, error) {
	c := &servedTopic{topic: t}
	var err error
	if c.limit, c.limits, err = all.of(&t); err != nil {
		return nil, err
	}
	c.runner, err = newRunner(&t, p)
	return c, err
}

// dispatched is the topic as the dispatcher knows it.
func (c *servedTopic) dispatched() dispatch.Topic {
	t := &c.topic
	return dispatch.Topic{
		Name: t.Name, Handler: c, Concurrency: c.slots(t.Concurrency), Reserved: t.Reserved,
		Lease: t.Lease, Settings: t.Settings, Room: c.room(), Limits: c.limits,
		Retries: t.Retries,
	}
}

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
	c.Logger = p.forTopics(topics...)
	return pipe.Start(c)
}

// forTopics is the logger of a handler.
func (p *programs) forTopics(names ...string) *slog.Logger {
	return p.logger.With(slog.String("queue_topic", strings.Join(names, ",")))
}

// pipeSlots is how many handlers of kept programs may run at once: how many should
// is for the pipe to say.
func pipeSlots(children int) int { return min(2*children*pipe.MaxInFlight, dispatch.MaxSlots) }

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
