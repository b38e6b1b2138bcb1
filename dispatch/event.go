package dispatch

import (
	"cmp"
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// EventSink is told about deliveries one by one: that a handler begins
// ([Started]), that a failure was decided about, or a handler gave it back and said
// why (policy.Failed, and policy.Again for that of a repetition), that the store has
// taken an ack ([Completed]). A failure that is ignored has no Completed, unless it was
// that of a part. What the dispatcher gave back, or whose lease was lost, ends without
// an event.
//
// Event is called concurrently, but for one message in the order of what
// happens. It must not block.
type EventSink interface {
	Event(e Event)
}

// The phases of an event that are no failures.
const (
	Started   = "Started"
	Completed = "Completed"
)

// Event is what happened to a delivery. Domain and type are what the topic or
// the error states; the default is Engine and TaskModel.
type Event struct {
	policy.Event
	Topic string
	// Delivery is for reading, until Event returns; nil for a part of a batch. Of one
	// whose handler was given up it has topic, id, token and attempt only.
	Delivery *pawl.Delivery
	TraceID  string
	Attempt  int
	// Of a failure: the error, and what was decided. Of what the handler gave back:
	// its error, and no decision, as the policy was not asked.
	Err      error
	Decision policy.Decision
	Released bool // the handler gave it back
}

// happened tells the sink. Callers have made sure that there is one. An attempt
// without a decision was given back.
func (d *Dispatcher) happened(t *topic, del *pawl.Delivery, phase string, a *policy.Attempt,
	decision *policy.Decision) {
	e := Event{Event: t.Event, Topic: t.Name, Delivery: del}
	if del != nil {
		e.TraceID, e.Attempt = traceID(del.Headers[TraceParent]), del.Attempt
	}
	if a != nil {
		e.Err, e.Attempt, e.Released = a.Err, a.Number, decision == nil
	}
	if decision != nil {
		e.Decision = *decision
		e.Domain, e.Type = cmp.Or(decision.Event.Domain, e.Domain), cmp.Or(decision.Event.Type, e.Type)
	}
	e.Domain, e.Type, e.Phase = cmp.Or(e.Domain, policy.Engine), cmp.Or(e.Type, "TaskModel"), phase
	d.cfg.Events.Event(e)
}

// Step tells of a part of a delivery that has events of its own, where one delivery carries out several steps: that it
// begins ([Started]), or that the handler is done with it ([Completed]); it is durable when the delivery is. One that
// fails is told of when the handler returns its error, with the step's event: policy.At. Outside of a handler Step does
// nothing.
func Step(ctx context.Context, e policy.Event, phase string) {
	r, ok := ctx.Value(policy.ContextKey{}).(resolver)
	if !ok || r.c.d.cfg.Events == nil {
		return
	}
	if _, del := r.c.about(); del != nil {
		e.Domain, e.Phase = cmp.Or(e.Domain, policy.Engine), phase
		r.c.d.cfg.Events.Event(Event{Event: e, Topic: del.Topic, Delivery: del, Attempt: del.Attempt,
			TraceID: traceID(del.Headers[TraceParent])})
	}
}

// begun tells that the handler is called.
func (w *worker) begun(c *call) {
	if w.d.cfg.Events == nil {
		return
	}
	if w.t.Batch == nil {
		w.d.happened(w.t, c.delivery, Started, nil, nil)
	}
	for _, del := range w.ds {
		w.d.happened(w.t, del, Started, nil, nil)
	}
}

// completed tells of the acks in a batch that the store took.
func (d *Dispatcher) completed(batch tray, refused map[int]error) {
	if d.cfg.Events == nil {
		return
	}
	for i := range batch.outs {
		o := &batch.outs[i]
		if o.done != nil && batch.items[i].Verdict == store.Ack && refused[i] == nil {
			d.happened(o.run.topic, o.done, Completed, nil, nil)
		}
	}
}
