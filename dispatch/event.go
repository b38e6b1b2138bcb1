package dispatch

import (
	"cmp"
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// events tells observers and the log of deliveries.
type events struct {
	*engine
}

// EventSink receives the events of deliveries: a handler begins ([Started]); the policy has
// decided about a failure, or a handler gave the delivery back with a reason (policy.Failed,
// or policy.Again in a repetition); the store has accepted an ack ([Completed]). An ignored
// failure has no Completed, unless it was that of a part. A delivery that the dispatcher gave
// back, or whose lease was lost, ends without an event.
//
// Event is called concurrently, but the events of one message come in order. It must
// not block.
type EventSink interface {
	Event(e Event)
}

// The phases of an event that are no failures.
const (
	Started   = "Started"
	Completed = "Completed"
)

// Event is a step of a delivery. Domain and type are those that the topic or the error
// states; the default is Engine and TaskModel.
type Event struct {
	policy.Event
	Topic string
	// Delivery may be read until Event returns; nil for a part of a batch. If the
	// handler was given up, only topic, id, token and attempt are set.
	Delivery *pawl.Delivery
	TraceID  string
	Attempt  int
	// Of a failure: the error and the decision. Of a delivery that the handler gave
	// back: the error, and no decision, because the policy was not asked.
	Err      error
	Decision policy.Decision
	Released bool // the handler gave it back
}

// Filled returns e with the domain, type and trace that its decision and its delivery state, and the defaults.
func (e Event) Filled() Event {
	e.Domain = cmp.Or(e.Decision.Event.Domain, e.Domain, policy.Engine)
	e.Type = cmp.Or(e.Decision.Event.Type, e.Type, "TaskModel")
	if e.Delivery != nil {
		e.TraceID = traceID(e.Delivery.Headers[TraceParent])
	}
	return e
}

// happened emits an event; there must be a sink. An attempt without a decision was
// given back.
func (d *events) happened(t *topic, del *pawl.Delivery, phase string, a *policy.Attempt,
	decision *policy.Decision) {
	e := Event{Event: t.Event, Topic: t.Name, Delivery: del}
	if del != nil {
		e.Attempt = del.Attempt
	}
	if a != nil {
		e.Err, e.Attempt, e.Released = a.Err, a.Number, decision == nil
	}
	if decision != nil {
		e.Decision = *decision
	}
	e.Phase = phase
	d.emit(e.Filled())
}

// emit hands an event to the sink. It contains values of the handler, and a sink that panics at them must not end the
// process.
func (d *events) emit(e Event) {
	defer func() {
		if v := recover(); v != nil {
			d.cfg.Logger.Error("event sink panicked; an event is lost", "error", recovered(v))
		}
	}()
	d.cfg.Events.Event(e)
}

// Step emits an event for one step of a delivery that consists of several: that it begins ([Started]), or that the
// handler has finished it ([Completed]); it is durable only when the delivery is. For a step that fails, the handler
// returns its error with the step's event (policy.At). Outside of a handler Step does nothing.
func Step(ctx context.Context, e policy.Event, phase string) {
	r, ok := ctx.Value(policy.ContextKey{}).(resolver)
	if !ok || r.c.d.cfg.Events == nil {
		return
	}
	if t, del := r.c.about(); del != nil {
		e.Domain, e.Phase = cmp.Or(e.Domain, policy.Engine), phase
		r.c.d.emit(Event{Event: e, Topic: t.Name, Delivery: del, Attempt: del.Attempt,
			TraceID: traceID(del.Headers[TraceParent])})
	}
}

// begun emits the event that the handler is called.
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

// completed emits events for the acks in a batch that the store accepted.
func (d *events) completed(batch settlements, refused map[int]error) {
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
