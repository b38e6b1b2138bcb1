package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// A handler in another language is told which attempt is the last one.
func TestLastAttemptIsForeseen(t *testing.T) {
	s := memory.New(memory.Config{})
	if err := store.Send(t.Context(), s, pawl.Message{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	var last []bool
	h := pawl.HandlerFunc(func(ctx context.Context, _ *pawl.Delivery) error {
		last = append(last, policy.LastAttempt(ctx, policy.KindCommand))
		return pawl.OfKind(policy.KindCommand, errors.New("no"))
	})
	d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{{Name: "t", Handler: h,
		Retries: policy.Retries{Attempts: 3, Base: time.Millisecond}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(last, []bool{false, false, true}) {
		t.Errorf("told %v", last)
	}
	if policy.LastAttempt(t.Context(), policy.KindCommand) {
		t.Error("an attempt outside of a handler is the last one")
	}
}
