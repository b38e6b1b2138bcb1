package serve

import (
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

// maxEventError is how much of an error goes with an event.
const maxEventError = 500

// boardSize is how many events somebody who begins to watch sees at once.
const boardSize = 500

// Events is the event bus of a process, with what listens to it: metrics, log,
// board, and the audit if it has a file. It is the EventSink of dispatchers.
// Closing the bus ends it.
type Events struct {
	*observe.Bus
	Types *observe.EventTypes // pipelines register theirs before they begin
	Board *observe.Board

	redact func(string) string // nil: texts are kept as they are
}

// NewEvents starts the bus. Every event goes to audit, as a line of JSON; nil is
// no audit.
func NewEvents(m *observe.Metrics, log *slog.Logger, audit io.Writer) (*Events, error) {
	e := &Events{Types: observe.NewEventTypes(), Board: observe.NewBoard(boardSize)}
	taps := []observe.Tap{
		{Name: "metrics", Consumer: m}, {Name: "log", Consumer: observe.LogEvents(log)},
		{Name: "board", Consumer: e.Board},
	}
	if audit != nil {
		taps = append(taps, observe.Tap{Name: "audit", Consumer: observe.NewAudit(audit),
			Queue: 4 * observe.DefaultQueue})
	}
	bus, err := observe.NewBus(e.Types, m, taps...)
	e.Bus = bus
	return e, err
}

// Event implements dispatch.EventSink. A type that never has the phase Retry has
// Failed instead. What the bus does not take, it counts.
func (e *Events) Event(h dispatch.Event) {
	env := observe.Envelope{
		Domain: h.Domain, Type: h.Type, Phase: h.Phase, Topic: h.Topic, TraceID: h.TraceID,
		Attrs: map[string]string{"attempt": strconv.Itoa(h.Attempt)},
	}
	if h.Delivery != nil {
		env.MessageID = h.Delivery.ID
	}
	if h.Err != nil {
		d := &h.Decision
		text, _, _ := strings.Cut(h.Err.Error(), "\n") // the stack of a panic is in the attempt's record
		if env.Err = strings.ToValidUTF8(text[:min(len(text), maxEventError)], ""); e.redact != nil {
			env.Err = e.redact(env.Err)
		}
		env.Kind = pawl.Describe(h.Err).Kind
		if h.Released {
			env.Attrs[observe.PolicyAction] = store.Release.String() // the policy was not asked
		} else {
			env.Attrs[observe.PolicyAction], env.Attrs["policy.rule"], env.Attrs["alert"] = d.Action.String(), d.Rule,
				d.Alert.String()
		}
		if d.Degrade != policy.NoDegrade {
			env.Attrs[observe.PolicyDegrade] = d.Degrade.String()
		}
		if h.Phase == policy.Again && e.Types.Check(h.Domain, h.Type, h.Phase) != nil {
			env.Phase = policy.Failed
		}
	}
	_ = e.Emit(env)
}
