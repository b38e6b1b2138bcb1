package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

var (
	errGoexit    = pawl.OfKind(pawl.KindPanic, errors.New("the handler ended its goroutine (runtime.Goexit)"))
	errExits     = pawl.OfKind(pawl.KindPanic, errors.New("the policy or the event sink ended the goroutine"))
	errNoPanic   = pawl.OfKind(pawl.KindPanic, errors.New("panic(nil)")) // of a program with GODEBUG=panicnil=1
	errNoVerdict = errors.New("the batch handler returned no verdict for this delivery")
	// errReturned ends the context of a handler that has returned, so that goroutines
	// it left behind with that context end, too.
	errReturned = fmt.Errorf("handler returned: %w", context.Canceled)
)

// maxStack is how much of a panic's stack is recorded, and of its text.
const maxStack = 4 << 10

// handle calls the handler; verdicts are those of a batch. A panic becomes an error;
// runtime.Goexit goes on through it, to worker.survive.
func (w *worker) handle(c *call) (verdicts []error, err error) {
	returned := false
	defer func() {
		if !returned {
			err = cmp.Or(recovered(recover()), errNoPanic)
		}
	}()
	if w.t.Batch != nil {
		verdicts = w.t.Batch.HandleBatch(c, slices.Clone(w.ds)) // it may sort them
	} else {
		err = w.t.Handler.Handle(c, c.delivery)
	}
	returned = true
	return verdicts, err
}

// recovered makes an error of a panic, with its stack. nil is no panic.
func recovered(v any) error {
	if v == nil {
		return nil
	}
	text, stack := printed(v), debug.Stack()
	return pawl.OfKind(pawl.KindPanic, fmt.Errorf("panic: %s\n%s",
		text[:min(len(text), maxStack)], stack[:min(len(stack), maxStack)]))
}

// printed is fmt.Sprint, which itself panics at a value whose text panics with such a value.
func printed(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T, which panics when it is printed", v)
		}
	}()
	return fmt.Sprint(v)
}

// judge turns what a handler returned for a delivery into its settlement. It
// is called without mu.
func (d *runner) judge(res *entry, c *call, del *pawl.Delivery, err error, ran time.Duration) {
	if c.exits > 1 { // it would do so for ever
		st, _ := Judge{d.store, d.fallback, d.cfg.Owner}.Fail(&d.byName[del.Topic].Topic, del, errExits, ran)
		*res = entry{settlement: st, outcome: outcome{ran: ran, waited: -1, given: res.given}}
		return
	}
	if panicked := d.tryToDecide(res, c, del, err, ran); panicked != nil {
		*res = entry{outcome: outcome{given: res.given}}
		d.decideOn(res, c, del, panicked, ran)
	}
	if st := &res.settlement; st.Verdict > store.Ack {
		st.Hold = del.HoldFor()
	}
}

// tryToDecide is decideOn with an error whose methods may panic: a nil pointer in an error that is not nil, say. A
// panic is returned.
func (d *runner) tryToDecide(res *entry, c *call, del *pawl.Delivery, err error, ran time.Duration) (panicked error) {
	if endless(err) {
		return pawl.OfKind(pawl.KindPanic, fmt.Errorf("the handler returned a %T, which wraps itself", err))
	}
	defer func() {
		if v := recover(); v != nil {
			panicked = fmt.Errorf("the handler returned a %T whose methods panic: %w", err, recovered(v))
		}
	}()
	d.decideOn(res, c, del, err, ran)
	return nil
}

func (d *runner) decideOn(res *entry, c *call, del *pawl.Delivery, err error, ran time.Duration) {
	res.ran, res.waited = ran, -1
	st := &res.settlement
	st.Token, st.ID = del.Token, del.ID
	if del.Attempt == 1 {
		res.waited = del.Waited
	}
	if err == nil && del.AckedInTx() {
		// If that was committed, the message is gone, and a release changes nothing; else it comes again.
		released(st, 0, "its handler acked it in a transaction that was not committed")
		res.inTx = true
		if d.cfg.Events != nil {
			res.done = del
		}
		return
	}
	if err == nil {
		if err = d.acked(st, del); err == nil {
			if d.cfg.Events != nil {
				res.done = del
			}
			return
		}
	}
	cause := c.why()
	if cause == pawl.ErrLeaseLost || cause == pawl.ErrDeadline && err != errAbandoned && c.givenUp() {
		return // nothing can be settled; record leaves it out
	}
	if release, ok := errors.AsType[*pawl.ReleaseError](err); ok {
		released(st, d.byName[del.Topic].restless.pause(del.ID, min(release.After, pawl.MaxPause)), release.Reason)
		d.settler.givenBack(del, err, cause, release)
		return
	}
	switch cause {
	case pawl.ErrDrain:
		released(st, 0, "drained while it ran")
		return
	case pawl.ErrDeadline:
		bound, of := "in time before the topic's deadline", del.Deadline
		switch own := del.TimeLimit(); {
		case c.limit > 0 && own != c.limit:
			bound, of = "by the time limit of a message in its batch", c.limit
		case c.limit > 0:
			bound, of = "by the time limit of the message", own
		}
		took := (d.now() - c.started).Round(time.Millisecond) // of a batch as a whole
		err = pawl.OfKind(pawl.KindDeadline, fmt.Errorf("stopped after %v, %s of %v: %w", took, bound, of, err))
	}
	d.failed(st, del, err, ran)
}

// acked fills in an ack, with what was emitted and marked. It fails if the store would not
// accept that.
func (d *runner) acked(st *store.Settlement, del *pawl.Delivery) error {
	return acked(d.store, st, del)
}

// The headers that carry the trace context (W3C Trace Context).
const (
	TraceParent = "traceparent"
	TraceState  = "tracestate"
)

// keepTrace gives emitted messages the trace of their parent, unless they have
// one.
func keepTrace(parent *pawl.Delivery, emits []pawl.Message) {
	trace := parent.Headers[TraceParent]
	if trace == "" {
		return
	}
	for i := range emits {
		m := &emits[i]
		if m.Headers[TraceParent] != "" {
			continue
		}
		if m.Headers == nil { // it is the delivery's own
			m.Headers = map[string]string{}
		}
		m.Headers[TraceParent] = trace
		if state := parent.Headers[TraceState]; state != "" {
			m.Headers[TraceState] = state
		}
	}
}

func released(st *store.Settlement, after time.Duration, reason string) {
	*st = store.Settlement{Token: st.Token, ID: st.ID, Verdict: store.Release, After: after,
		Failure: store.Failure{Error: reason}}
}

// failed asks the policy about a failure, and reports the decision.
func (d *runner) failed(st *store.Settlement, del *pawl.Delivery, err error, ran time.Duration) {
	t := d.byName[del.Topic]
	j := Judge{Store: d.store, Policy: policy.Func(d.decide), Owner: d.cfg.Owner}
	attempt, decision := j.fail(st, &t.Topic, t.retries(), del, err, ran)
	d.tell(t, del, &attempt, &decision)
}

// tell reports a decision to the observer and to the log.
func (d *runner) tell(t *topic, del *pawl.Delivery, a *policy.Attempt, decision *policy.Decision) {
	if o := d.cfg.Observer; o != nil {
		e := decision.Event
		o.Decided(t.Name, e.Domain, e.Type, e.Phase, decision.Kind, decision.Rule,
			decision.Action.String(), decision.Alert.String(), decision.Degrade.String())
	}
	if o, ok := d.cfg.Observer.(RetryObserver); ok && decision.Action == policy.Retry && !decision.Throttled &&
		a.Number >= policy.DefaultAttempts {
		o.RetriedOften(t.Name)
	}
	if d.cfg.Events != nil {
		d.events.happened(t, del, phaseOf(a), a, decision)
	}
	d.events.logFailure(t, del, a, decision)
}

// phaseOf is the phase of a failure.
func phaseOf(a *policy.Attempt) string {
	if a.Number > 1 || a.Throttles > 1 {
		return policy.Again
	}
	return policy.Failed
}

// decide asks the policy. One that panics or answers nothing must not end the
// worker: the default rule decides then.
func (d *runner) decide(a policy.Attempt) (decision policy.Decision) {
	defer func() {
		if v := recover(); v != nil {
			d.cfg.Logger.Error("policy panicked; the default rule decides", "error", recovered(v))
			decision = d.fallback.Decide(a)
		}
	}()
	asked := d.cfg.Policy
	if t := d.byName[a.Topic]; t != nil && t.Policy != nil {
		asked = t.Policy
	}
	decision = asked.Decide(a)
	if decision.Action < policy.Retry || decision.Action > policy.Ignore {
		decision = d.fallback.Decide(a)
	}
	return decision
}

// longestChain is how many errors a chain may have.
const longestChain = 10_000

// endless reports whether what an error wraps has no end: it wraps itself, so that package errors would never be done
// with it. An Unwrap that panics ends the look; whatever uses it finds out.
func endless(err error) bool {
	defer func() { _ = recover() }()
	left := longestChain
	return tooLong(err, &left)
}

func tooLong(err error, left *int) bool {
	for ; err != nil; *left-- {
		if *left <= 0 {
			return true
		}
		switch e := err.(type) { //nolint:errorlint // the chain is walked by hand: package errors would not end
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), func(err error) bool {
				*left--
				return tooLong(err, left)
			})
		default:
			return false
		}
	}
	return false
}
