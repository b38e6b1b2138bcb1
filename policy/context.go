package policy

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
)

// ContextKey is the key of the [Policy] that decides in a context. The context
// of a handler has one.
type ContextKey struct{}

// FromContext returns the policy that decides in ctx, so that a handler can ask it
// about a part of its work. Topic, event and number of an attempt that does not state
// them are those of the delivery. A decision to ignore the failure is counted and
// logged; any other one is not carried out and not counted: return the error, and it is
// decided for the delivery as a whole.
//
// Outside of a handler it is the policy of [NewMatrix] without rules.
func FromContext(ctx context.Context) Policy {
	if p, ok := ctx.Value(ContextKey{}).(Policy); ok {
		return p
	}
	m, _ := NewMatrix(nil) // without rules there is nothing to be wrong
	return m
}

// LastAttempt reports whether the policy of ctx would end the delivery as a dead letter if it failed
// now, with a transient failure of a kind. Outside of a handler it is false.
func LastAttempt(ctx context.Context, kind pawl.Kind) bool {
	p, ok := ctx.Value(ContextKey{}).(foreseer)
	return ok && p.Foresee(Attempt{Err: pawl.OfKind(kind, errForeseen)}).Action == Dead
}

var errForeseen = errors.New("a failure that has not happened")

// foreseer is a policy that says what it would decide, and reports nothing.
type foreseer interface{ Foresee(Attempt) Decision }

// Degraded asks the policy of ctx about a part of the work that failed with err: an
// item of a page, a row of a batch. If the work may continue without the part, the
// error is nil, and the Degrade says how; [At], [With] and pawl.OfKind say what failed.
// Otherwise the error is err, for the handler to return.
//
//	for _, item := range items {
//		if err := check(item); err != nil {
//			how, err := policy.Degraded(ctx, err)
//			if err != nil {
//				return err
//			}
//			if how == policy.StopTask {
//				return nil
//			}
//			continue // the item is left out
//		}
//		…
//	}
func Degraded(ctx context.Context, err error) (Degrade, error) {
	if err == nil {
		return NoDegrade, nil
	}
	if d := FromContext(ctx).Decide(Attempt{Err: err}); d.Action == Ignore {
		return d.Degrade, nil
	}
	return NoDegrade, err
}
