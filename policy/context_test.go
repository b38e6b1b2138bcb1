package policy_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// Outside of a handler, as in the test of one, the built-in matrix decides.
func TestDegradedOutsideOfAHandler(t *testing.T) {
	if how, err := policy.Degraded(context.Background(), pawl.OfKind(policy.KindSyncCodec,
		errBroken)); how != policy.NoDegrade || err != nil {
		t.Error(how, err)
	}
	if how, err := policy.Degraded(context.Background(), errBroken); how != policy.NoDegrade || err != errBroken {
		t.Error(how, err)
	}
	if how, err := policy.Degraded(context.Background(), nil); how != policy.NoDegrade || err != nil {
		t.Error(how, err)
	}
}

// The policy of the context decides about a part: bad input costs the item.
func TestDegradedAsThePolicySays(t *testing.T) {
	ctx := context.WithValue(context.Background(), policy.ContextKey{}, policy.Policy(matrix(t)))
	at := policy.Event{Domain: policy.Engine, Type: "MiddlewareBefore", Phase: policy.Failed}
	bad := policy.At(pawl.OfKind("DataMiddleware", policy.With(errBroken, policy.BadInput)), at)
	if how, err := policy.Degraded(ctx, bad); how != policy.SkipItem || err != nil {
		t.Error(how, err)
	}
}

func TestFromContextFindsThePolicy(t *testing.T) {
	mine := policy.Func(func(policy.Attempt) policy.Decision { return policy.Decision{Rule: "mine"} })
	ctx := context.WithValue(context.Background(), policy.ContextKey{}, mine)
	if d := policy.FromContext(ctx).Decide(policy.Attempt{}); d.Rule != "mine" {
		t.Errorf("%+v", d)
	}
}

// What somebody puts into a kind does not look like another input.
func TestInputsCannotBeForged(t *testing.T) {
	a := policy.Attempt{Number: 2, Err: pawl.OfKind("a kind=b\n", policy.With(errBroken, policy.BadInput))}
	if got, want := a.Inputs(),
		`attempt=2 class=transient phase=Failed kind="a kind=b\\n" facts="bad input"`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
