package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Judge makes settlements from the outcomes of deliveries, as a dispatcher does: for programs
// that claim from a store, and have the work done elsewhere.
type Judge struct {
	Store  store.Store
	Policy policy.Policy
	Owner  string // who carries the deliveries out
}

// Ack returns the settlement of a delivery that succeeded, with its emitted messages and marks. The error says why the
// store would not accept them.
func (j Judge) Ack(del *pawl.Delivery) (store.Settlement, error) {
	st := store.Settlement{Token: del.Token, ID: del.ID}
	err := acked(j.Store, &st, del)
	return st, err
}

// Fail asks the policy about a delivery of topic t that failed after it ran for that long, and returns the settlement
// that follows. It uses Event and Retries of t, and the RetryFor of the message.
func (j Judge) Fail(t *Topic, del *pawl.Delivery, err error, ran time.Duration) (store.Settlement, policy.Decision) {
	st := store.Settlement{Token: del.Token, ID: del.ID}
	_, decision := j.fail(&st, t, t.Retries, del, err, ran)
	if st.Verdict > store.Ack {
		st.Hold = del.HoldFor()
	}
	return st, decision
}

func (j Judge) fail(st *store.Settlement, t *Topic, r policy.Retries, del *pawl.Delivery, err error,
	ran time.Duration) (policy.Attempt, policy.Decision) {
	attempt := policy.Attempt{Topic: del.Topic, Event: policy.EventOf(err, t.Event), Number: del.Attempt, Err: err,
		Retries: retriesOf(del, r)}
	described := pawl.Describe(err)
	if described.Class == pawl.ClassThrottled {
		attempt.Throttles = del.Throttles + 1
		if del.Throttles > 0 {
			attempt.ThrottledFor = del.ThrottledFor + max(ran, 0)
		}
	}
	text, inputs := store.Text(err.Error()), attempt.Inputs() // first: if its methods panic, nothing was reported yet
	decision := j.Policy.Decide(attempt)
	st.Failure = store.Failure{
		Kind: described.Kind, Attrs: described.Attrs, Error: text, Rule: decision.Rule,
		Action: decision.Action.String() + ": " + decision.Reason, Inputs: inputs,
		Worker: j.Owner, Ran: ran,
	}
	switch decision.Action {
	case policy.Retry:
		st.Verdict, st.After, st.Throttled = store.Retry, min(max(decision.Delay, 0), pawl.MaxDelay), decision.Throttled
	case policy.Dead:
		st.Verdict = store.Dead
	default:
		j.ignored(st, del, decision.Degrade)
	}
	return attempt, decision
}

// ignored acks a delivery whose failure the policy ignores. The work continues with
// what the handler emitted; where the item is skipped, or the task stopped, nothing is
// emitted.
func (j Judge) ignored(st *store.Settlement, del *pawl.Delivery, how policy.Degrade) {
	failure := st.Failure
	st.Failure = store.Failure{}
	if how == policy.SkipItem || how == policy.StopTask {
		st.Verdict, st.Hold = store.Ack, del.HoldFor()
		if st.Validate() == nil {
			return
		}
	} else if acked(j.Store, st, del) == nil {
		return
	}
	*st = store.Settlement{Token: st.Token, ID: st.ID, Verdict: store.Dead, Failure: failure}
}

// acked fills in an ack, with what was emitted and marked. It fails if the store would not
// accept that.
func acked(s store.Store, st *store.Settlement, del *pawl.Delivery) error {
	st.Verdict, st.Hold, st.Emit, st.Marks = store.Ack, del.HoldFor(), del.Emitted(), del.Marked()
	if len(st.Emit) == 0 && len(st.Marks) == 0 && st.Hold == 0 {
		return nil
	}
	keepTrace(del, st.Emit)
	err := st.Validate()
	_, size := st.Writes()
	for i := range st.Emit {
		if why := store.Fit(s, &st.Emit[i]); err == nil && why != nil {
			err = fmt.Errorf("emit[%d]: %w", i, why)
		}
	}
	if err == nil && size > store.MaxBatchBytes {
		err = fmt.Errorf("emit and marks have %d bytes; the limit is %d", size, store.MaxBatchBytes)
	}
	if err == nil && len(st.Marks) > 0 && !store.Can(s, store.CanMarks) {
		err = &store.Error{Op: "settle", Code: store.ErrUnsupported, Err: errors.New("the store keeps no marks")}
	}
	if err != nil {
		*st = store.Settlement{Token: st.Token, ID: st.ID}
		return pawl.Permanent(pawl.OfKind(pawl.KindEmit, err))
	}
	return nil
}
