package trace

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// Topics returns topics whose attempts are traced: their handlers find the context in theirs, and in the headers of
// the delivery. Objective is how long a message of a topic may take from when it was visible until its ack; 0, or a
// nil function, is as long as it likes.
func (t *Tracer) Topics(topics []dispatch.Topic, objective func(topic string) time.Duration) []dispatch.Topic {
	if t == nil {
		return topics
	}
	all := make([]dispatch.Topic, len(topics))
	for i, topic := range topics {
		limit := time.Duration(0)
		if objective != nil {
			limit = objective(topic.Name)
		}
		if next := topic.Handler; next != nil {
			topic.Handler = pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
				ctx, g := t.begin(ctx, limit, d)
				errs := make([]error, 1)
				defer func() { g.returned(ctx, errs) }()
				errs[0] = next.Handle(ctx, d)
				return errs[0]
			})
		}
		if next := topic.Batch; next != nil {
			topic.Batch = pawl.BatchHandlerFunc(func(ctx context.Context, ds []*pawl.Delivery) []error {
				ctx, g := t.begin(ctx, limit, ds...)
				var errs []error
				defer func() { g.returned(ctx, errs) }()
				errs = next.HandleBatch(ctx, ds)
				return errs
			})
		}
		all[i] = topic
	}
	return all
}

// group is what one call of a handler is about, with the steps that the handler reported.
type group struct {
	t        *Tracer
	attempts []*attempt

	mu    sync.Mutex
	steps []*span
	kept  bool // the steps are exported
}

// attempt is a delivery that a handler has, or had, until it is settled.
type attempt struct {
	group     *group
	token     pawl.Token
	id, topic string
	number    int
	replays   int
	throttles int
	rescues   int
	waited    time.Duration // visible before it was begun
	objective time.Duration
	until     time.Time         // when its lease has ended in any case
	came      trace.SpanContext // with the message
	process   trace.SpanContext
	span      *span
	enqueued  time.Time
	size      int
	ended     time.Time // the handler returned; guarded by Tracer.mu, as err is
	err       error     // what it returned
}

// sweepEvery is how often attempts are looked for whose lease was lost.
const sweepEvery = 10 * time.Second

// begin takes note of deliveries that a handler is about to get.
func (t *Tracer) begin(ctx context.Context, objective time.Duration, ds ...*pawl.Delivery) (context.Context, *group) {
	g, now := &group{t: t}, time.Now()
	here := time.Duration(0) // since they were claimed
	if at := dispatch.ClaimedAt(ctx); !at.IsZero() {
		here = now.Sub(at)
	}
	for _, d := range ds {
		a := &attempt{group: g, token: d.Token, id: d.ID, topic: d.Topic, number: d.Attempt, replays: d.Replays,
			throttles: d.Throttles, rescues: d.Rescues, waited: d.Waited + here, objective: objective,
			until: now.Add(d.Deadline), enqueued: d.EnqueuedAt, size: len(d.Body), came: contextOf(d.Headers)}
		sc := unmarked(a.came)
		if !sc.IsValid() {
			id := traceOf(d.ID)
			sc = trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, TraceFlags: t.flags(id)})
		}
		a.process = sc.WithSpanID(randomSpan()).WithRemote(false)
		a.span = &span{name: opProcess + " " + d.Topic, kind: trace.SpanKindConsumer, context: a.process, parent: a.came,
			start: now, attrs: append(about(opProcess, d.Topic, d.ID), attrAttempt.Int(d.Attempt), attrSize.Int(a.size),
				attrWaited.Float64(a.waited.Seconds()))}
		if d.Log != nil {
			a.span.attrs = append(a.span.attrs, attrPartition.String(strconv.Itoa(int(d.Log.Partition()))),
				attrOffset.Int64(d.Log.Offset()))
		}
		a.linked()
		d.Headers, _ = withContext(d.Headers, a.process)
		g.attempts = append(g.attempts, a)
	}
	t.mu.Lock()
	for _, a := range g.attempts {
		if !t.nothing {
			t.open[a.token] = a
		}
	}
	t.sweep(now)
	t.mu.Unlock()
	ctx = context.WithValue(ctx, groupKey{}, g)
	if len(g.attempts) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, g.attempts[0].process)
	}
	return ctx, g
}

// linked links an attempt to its send, and to what it came from: a settle that asked for a retry, or a replay.
func (a *attempt) linked() {
	if a.came.IsValid() {
		a.span.links = append(a.span.links, link(a.came))
	}
	if a.replays > 0 {
		a.span.links = append(a.span.links, link(a.sibling(opReplay, a.replays)))
		a.span.attrs = append(a.span.attrs, attrReplays.Int(a.replays))
	}
	switch {
	case a.throttles > 0:
		a.span.links = append(a.span.links, link(a.sibling("throttle", a.replays, a.number, a.throttles)))
		a.span.attrs = append(a.span.attrs, attrThrottles.Int(a.throttles))
	case a.number > 1:
		a.span.links = append(a.span.links, link(a.sibling("retry", a.replays, a.number-1)))
	}
	if a.rescues > 0 {
		a.span.attrs = append(a.span.attrs, attrRescues.Int(a.rescues))
		a.span.events = append(a.span.events, event{name: eventRescue, at: a.span.start})
	}
}

// sibling is the span of another event in the message's life.
func (a *attempt) sibling(what string, numbers ...int) trace.SpanContext {
	return sibling(a.process, spanOf(a.id, what, numbers...))
}

// sweep ends attempts that were not settled: their lease was lost behind the handler. The caller holds mu.
func (t *Tracer) sweep(now time.Time) {
	if now.Sub(t.swept) < sweepEvery {
		return
	}
	t.swept = now
	for token, a := range t.open {
		if now.After(a.until.Add(sweepEvery)) {
			delete(t.open, token)
			go a.unsettled(now, "the lease ended before it was settled")
		}
	}
}

// take removes an attempt that is settled; nil if there is none.
func (t *Tracer) take(token pawl.Token) *attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.open[token]
	delete(t.open, token)
	return a
}

// returned takes note that the handler has returned. What it lost the lease of is not settled.
func (g *group) returned(ctx context.Context, errs []error) {
	now := time.Now()
	g.t.mu.Lock()
	for i, a := range g.attempts {
		a.ended = now
		if i < len(errs) {
			a.err = errs[i]
		}
	}
	g.t.mu.Unlock()
	if errors.Is(context.Cause(ctx), pawl.ErrLeaseLost) {
		for _, a := range g.attempts {
			if g.t.take(a.token) != nil {
				a.unsettled(now, "the lease was lost")
			}
		}
	}
}

// unsettled exports an attempt whose outcome the store does not know of.
func (a *attempt) unsettled(now time.Time, why string) {
	a.span.end, _ = a.outcome(now)
	a.span.failed = why
	a.span.attrs = append(a.span.attrs, attrError.String("lease_lost"))
	a.export("lost")
}

// outcome is when the handler returned what; that long ago it was given up, if it has not returned.
func (a *attempt) outcome(givenUp time.Time) (time.Time, error) {
	a.group.t.mu.Lock()
	defer a.group.t.mu.Unlock()
	if a.ended.IsZero() {
		return givenUp, nil
	}
	return a.ended, a.err
}

// settled decides, at the end of an attempt, whether it is exported, and does it.
func (a *attempt) settled(st *store.Settlement, refused error, start, end time.Time) {
	s := a.span
	var err error
	s.end, err = a.outcome(start)
	s.attrs = append(s.attrs, attrVerdict.String(st.Verdict.String()))
	settle := &span{name: opSettle + " " + a.topic, kind: trace.SpanKindClient, parent: a.process, start: start,
		end: end, context: sibling(a.process, a.settleID(st)), attrs: append(about(opSettle, a.topic, a.id),
			attrVerdict.String(st.Verdict.String()))}
	if after := st.Closes(); after > 0 {
		settle.attrs = append(settle.attrs, attrAfter.Float64(after.Seconds()))
	}
	why := a.keep(st, err, end)
	a.decided(st, err)
	if refused != nil {
		settle.failed, why = refused.Error(), "refused"
		settle.attrs = append(settle.attrs, attrError.String("refused"))
	}
	if why != "" || a.process.IsSampled() {
		a.export(why)
		a.group.t.export(settle)
	}
}

// keep says why an attempt is exported whatever the sampling says; empty: it need not be.
func (a *attempt) keep(st *store.Settlement, err error, settled time.Time) string {
	took := a.waited + settled.Sub(a.span.start)
	switch {
	case st.Verdict == store.Dead:
		return "dead"
	case st.Verdict == store.Retry:
		return "failed"
	case st.Verdict == store.Ack && err != nil:
		return "ignored"
	case a.rescues > 0:
		return "rescued"
	case a.replays > 0:
		return "replayed"
	case a.number > 1 || a.throttles > 0:
		return "retried"
	case a.objective > 0 && st.Verdict == store.Ack && took > a.objective:
		return "slow"
	}
	return ""
}

// decided adds what followed from the attempt as events, and its error.
func (a *attempt) decided(st *store.Settlement, err error) {
	s, f := a.span, &st.Failure
	note := func(name string, attrs ...attribute.KeyValue) { s.events = append(s.events, event{name, s.end, attrs}) }
	switch {
	case st.Verdict == store.Retry || st.Verdict == store.Dead:
		s.failed = f.Error
		s.attrs = append(s.attrs, attrError.String(string(f.Kind)))
		note(eventDecision, attrRule.String(f.Rule), attrAction.String(f.Action), attrAfter.Float64(st.After.Seconds()))
	case st.Verdict == store.Release:
		note(eventDecision, attrAction.String("release: "+f.Error), attrAfter.Float64(st.After.Seconds()))
	case err != nil:
		s.failed = err.Error()
		s.attrs = append(s.attrs, attrError.String(string(pawl.Describe(err).Kind)))
		note(eventDecision, attrAction.String("ignore"))
	}
	emits, order := map[string]int{}, []string{}
	for i := range st.Emit {
		topic := st.Emit[i].Topic
		if emits[topic]++; emits[topic] == 1 {
			order = append(order, topic)
		}
	}
	for _, topic := range order {
		note(eventEmit, attrDestination.String(topic), attrCount.Int(emits[topic]))
	}
	if st.Hold > 0 {
		note(eventHold, attrAfter.Float64(st.Hold.Seconds()))
	}
}

// settleID is the id of the settle: one that whoever carries out what follows can compute, or any.
func (a *attempt) settleID(st *store.Settlement) trace.SpanID {
	switch {
	case st.Verdict == store.Dead:
		return spanOf(a.id, "dead", a.replays)
	case st.Verdict == store.Retry && st.Throttled:
		return spanOf(a.id, "throttle", a.replays, a.number, a.throttles+1)
	case st.Verdict == store.Retry:
		return spanOf(a.id, "retry", a.replays, a.number)
	}
	return randomSpan()
}

// export exports an attempt with its steps; with the first one of a message that is kept for a reason, its send and
// its replay, too: when those were made nobody knew.
func (a *attempt) export(why string) {
	t, first := a.group.t, a.number == 1 && a.throttles == 0
	if parent, ours := sendOf(a.came); ours && first && !a.came.IsSampled() {
		t.export(sendSpan(a.came, parent, a.topic, a.id, a.size, a.enqueued, a.enqueued, ""))
	}
	if a.replays > 0 && first {
		visible := a.span.start.Add(-a.waited)
		sc := a.sibling(opReplay, a.replays)
		t.export(&span{name: opReplay + " " + a.topic, kind: trace.SpanKindProducer, context: sc, parent: a.came,
			start: visible, end: visible, attrs: append(about(opReplay, a.topic, a.id), attrReplays.Int(a.replays)),
			links: []trace.Link{link(a.sibling("dead", a.replays-1))}})
	}
	if why != "" {
		a.span.attrs = append(a.span.attrs, attrKept.String(why))
	}
	if n := len(a.group.attempts); n > 1 {
		a.span.attrs = append(a.span.attrs, attrBatch.Int(n))
	}
	t.export(a.span)
	a.group.export()
}

// export exports the steps that are over.
func (g *group) export() {
	g.mu.Lock()
	steps := g.steps
	g.steps, g.kept = nil, true
	g.mu.Unlock()
	for _, s := range steps {
		g.t.export(s)
	}
}
