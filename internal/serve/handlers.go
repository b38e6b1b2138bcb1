package serve

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	hook "github.com/pawl-dev/pawl/handler/http"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
)

// runner is the handler of a topic, with its life around it.
type runner interface {
	pawl.Handler
	// start begins what the handler needs; wake is to be called when claims are worth
	// a try again. No Handle comes before.
	start(ctx context.Context, s store.Store, wake func())
	// room says how many more lanes are welcome; nil: slots say enough.
	room() func() (lanes, run int)
	// slots is how many Handle may run at once, of a concurrency that was asked for.
	slots(concurrency int) int
	// resizes tells whether a reload may change the concurrency.
	resizes() bool
	// failing says why nothing is carried out; nil if it is.
	failing() error
	// close ends what start began. No Handle is under way.
	close()
}

// handlerKind is a kind of handler that a topic of the configuration can have.
type handlerKind struct {
	name  string
	build func(t *config.Topic, p *programs, replies *hook.Replies) (runner, error)
}

// handlerKinds are all of them: a line each. Package config has their keys.
func handlerKinds() []handlerKind {
	return []handlerKind{
		{config.Exec, func(t *config.Topic, p *programs, _ *hook.Replies) (runner, error) {
			return plain{Handler: p.exec(t.Command)}, nil
		}},
		{config.HTTP, func(t *config.Topic, _ *programs, replies *hook.Replies) (runner, error) {
			h, err := hook.New(hook.Config{
				URL: t.URL, Method: t.Method, Headers: t.Headers, Timeout: t.Timeout, Replies: replies,
			})
			if err != nil {
				return nil, err
			}
			return plain{h, h.Close}, nil
		}},
		{config.Pipe, func(t *config.Topic, p *programs, _ *hook.Replies) (runner, error) {
			return &keeper{programs: p, topic: t}, nil
		}},
	}
}

// newRunner makes the handler of a topic.
func newRunner(t *config.Topic, p *programs, replies *hook.Replies) (runner, error) {
	for _, k := range handlerKinds() {
		if k.name == t.Handler {
			return k.build(t, p, replies)
		}
	}
	return nil, fmt.Errorf("there is no handler %q", t.Handler)
}

// plain is a handler that needs no more than to be called.
type plain struct {
	pawl.Handler
	end func() // nil: nothing is to be closed
}

func (plain) start(context.Context, store.Store, func()) {}
func (plain) room() func() (lanes, run int)              { return nil }
func (plain) slots(concurrency int) int                  { return concurrency }
func (plain) resizes() bool                              { return true }
func (plain) failing() error                             { return nil }

func (p plain) close() {
	if p.end != nil {
		p.end()
	}
}
