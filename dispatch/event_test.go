package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
)

// sink remembers events, by message.
type sink struct {
	mu sync.Mutex
	of map[string][]string
}

func (s *sink) Event(e dispatch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string][]string{}
	}
	id, text := "", fmt.Sprintf("%s/%s/%s %d", e.Domain, e.Type, e.Phase, e.Attempt)
	if e.Delivery != nil {
		id = e.Delivery.ID
	}
	if e.Err != nil {
		text += fmt.Sprintf(" %v: %v", e.Err, e.Decision.Action)
	}
	if e.Released {
		text += ", given back"
	}
	if e.TraceID != "" {
		text += " traced"
	}
	s.of[id] = append(s.of[id], text)
}

func (s *sink) list(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.of[id], ", ")
}

func TestEventsOfADelivery(t *testing.T) {
	bubble(t, func(r *rig) {
		var s sink
		msgs := numbered("a", 6)
		msgs[0].Headers = map[string]string{"traceparent": trace}
		r.append(msgs...)
		r.append(numbered("b", 2)...)
		given := false
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			switch d.ID {
			case "a-1":
				if d.Attempt < 3 {
					return errBroken
				}
			case "a-2":
				dispatch.Step(ctx, policy.Event{Type: "Parser"}, dispatch.Started)
				return policy.At(pawl.OfKind("Parser", errBroken), policy.Event{Domain: "Engine", Type: "Parser"})
			case "a-3":
				if !given {
					given = true
					return pawl.Release(time.Minute, "later")
				}
			case "a-4":
				return pawl.OfKind(policy.KindSyncCodec, errBroken)
			case "a-5":
				_, err := policy.Degraded(ctx, pawl.OfKind(policy.KindSyncCodec, errBroken))
				return err
			}
			return nil
		})
		c.Events = &s
		c.Topics = append(c.Topics, dispatch.Topic{
			Name: "b", Event: policy.Event{Domain: "Engine", Type: "Download"},
			Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
				return make([]error, len(ds))
			}),
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		for id, want := range map[string]string{
			"":    "", // whatever happens, happens to a message
			"a-0": "Engine/TaskModel/Started 1 traced, Engine/TaskModel/Completed 1 traced",
			"a-1": "Engine/TaskModel/Started 1, Engine/TaskModel/Failed 1 broken: retry, Engine/TaskModel/Started 2, " +
				"Engine/TaskModel/Retry 2 broken: retry, Engine/TaskModel/Started 3, Engine/TaskModel/Completed 3",
			"a-2": "Engine/TaskModel/Started 1, Engine/Parser/Started 1, Engine/Parser/Failed 1 broken: dead",
			"a-3": "Engine/TaskModel/Started 1, Engine/TaskModel/Failed 1 released: later: none, given back, " +
				"Engine/TaskModel/Started 1, Engine/TaskModel/Completed 1",
			"a-4": "Engine/TaskModel/Started 1, Engine/TaskModel/Failed 1 broken: ignore",
			"a-5": "Engine/TaskModel/Started 1, Engine/TaskModel/Failed 1 broken: ignore, Engine/TaskModel/Completed 1",
			"b-0": "Engine/Download/Started 1, Engine/Download/Completed 1",
			"b-1": "Engine/Download/Started 1, Engine/Download/Completed 1",
		} {
			if got := s.list(id); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", id, got, want)
			}
		}
	})
}

// An ack that came too late completes nothing.
func TestRefusedAckIsNoCompletion(t *testing.T) {
	bubble(t, func(r *rig) {
		var s sink
		r.store.stale("x")
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
		c.Events = &s
		r.run(c)
		time.Sleep(10 * time.Minute)
		r.gone("x")
		equal(r, s.list("x"), "Engine/TaskModel/Started 1, Engine/TaskModel/Started 1, Engine/TaskModel/Completed 1")
	})
}

// TestTheErrorSaysWhatWasDone: a stage within a delivery is decided about by its own row, as a whole and in part.
func TestTheErrorSaysWhatWasDone(t *testing.T) {
	bubble(t, func(r *rig) {
		stage := policy.Event{Domain: policy.Engine, Type: "Own"}
		var asked []policy.Event
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(ctx context.Context, _ *pawl.Delivery) error {
			err := policy.At(errBroken, stage)
			_, err = policy.Degraded(ctx, err)
			return err
		})
		c.Topics[0].Event = policy.Event{Domain: policy.Engine, Type: "Download"}
		c.Policy = policy.Func(func(a policy.Attempt) policy.Decision {
			asked = append(asked, a.Event)
			return policy.Decision{Action: policy.Dead}
		})
		r.run(c)
		time.Sleep(time.Second)
		synctest.Wait()
		equal(r, asked, []policy.Event{stage, stage})
	})
}
