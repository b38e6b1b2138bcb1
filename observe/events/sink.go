// Package events is the bridge from dispatchers to the event bus of package observe: a program that
// embeds Pawl has the same events, logs and metrics as the daemon.
//
//	metrics, err := observe.New(registry)
//	sink, err := events.New(events.Config{Metrics: metrics, Logger: logger})
//	d, err := dispatch.New(s, dispatch.Config{Observer: metrics, Events: sink, Logger: logger, …})
//	err = d.Run(ctx)
//	err = sink.Close(context.Background())
package events

import (
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// maxError is how much of an error goes with an event.
const maxError = 500

// boardSize is how many past events a new watcher sees.
const boardSize = 500

// Config says where events go. Only Metrics is required.
type Config struct {
	// Metrics count events, and what the bus drops.
	Metrics *observe.Metrics
	// Logger gets every event, as the daemon logs it; nil is slog.Default.
	Logger *slog.Logger
	// Audit gets every event as a line of JSON; nil is no audit.
	Audit io.Writer
	// Redact masks secrets in the errors of events; nil keeps them as they are.
	Redact func(string) string
	// Taps are consumers of one's own, beside metrics, log, board and audit, which are the names of those.
	Taps []observe.Tap
}

// Sink is an event bus, with what listens to it. It is the EventSink of any number of dispatchers, and what else a
// process has to tell is emitted on its Bus. Closing it ends it; close it after the dispatchers.
type Sink struct {
	*observe.Bus
	Types *observe.EventTypes // those of one's own are registered before they happen
	Board *observe.Board      // the newest events, for people

	redact func(string) string
}

// New starts a bus.
func New(c Config) (*Sink, error) {
	if c.Metrics == nil {
		return nil, errors.New("events: no metrics")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	s := &Sink{Types: observe.NewEventTypes(), Board: observe.NewBoard(boardSize), redact: c.Redact}
	taps := []observe.Tap{
		{Name: "metrics", Consumer: c.Metrics}, {Name: "log", Consumer: observe.LogEvents(c.Logger)},
		{Name: "board", Consumer: s.Board},
	}
	if c.Audit != nil {
		taps = append(taps, observe.Tap{Name: "audit", Consumer: observe.NewAudit(c.Audit),
			Queue: 4 * observe.DefaultQueue})
	}
	var err error
	if s.Bus, err = observe.NewBus(s.Types, c.Metrics, append(taps, c.Taps...)...); err != nil {
		return nil, err
	}
	return s, nil
}

// Event implements dispatch.EventSink. A type that never has the phase Retry has
// Failed instead. Events that the bus refuses are counted by it.
func (s *Sink) Event(h dispatch.Event) {
	env := observe.Envelope{
		Domain: h.Domain, Type: h.Type, Phase: h.Phase, Topic: h.Topic, TraceID: h.TraceID,
		Attrs: map[string]string{"attempt": strconv.Itoa(h.Attempt)},
	}
	if h.Delivery != nil {
		env.MessageID = h.Delivery.ID
	}
	if h.Err != nil {
		s.failed(&env, h)
	}
	_ = s.Emit(env)
}

// failed adds what an event has of a failure.
func (s *Sink) failed(env *observe.Envelope, h dispatch.Event) {
	text, _, _ := strings.Cut(h.Err.Error(), "\n") // the stack of a panic is in the attempt's record
	if s.redact != nil {
		text = s.redact(text) // before it is cut: half of a secret is not recognized
	}
	env.Err = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	env.Kind = pawl.Describe(h.Err).Kind
	if h.Released {
		env.Attrs[observe.PolicyAction] = store.Release.String() // the policy was not asked
	} else {
		d := &h.Decision
		env.Attrs[observe.PolicyAction], env.Attrs["policy.rule"], env.Attrs["alert"] = d.Action.String(), d.Rule,
			d.Alert.String()
	}
	if h.Decision.Degrade != policy.NoDegrade {
		env.Attrs[observe.PolicyDegrade] = h.Decision.Degrade.String()
	}
	if h.Phase == policy.Again && s.Types.Check(h.Domain, h.Type, h.Phase) != nil {
		env.Phase = policy.Failed
	}
}
