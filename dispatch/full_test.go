package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// emitsTo is a handler that takes that long and emits one message to each topic.
func emitsTo(took time.Duration, topics ...string) pawl.HandlerFunc {
	return func(_ context.Context, d *pawl.Delivery) error {
		time.Sleep(took)
		for _, name := range topics {
			d.Emit(pawl.Message{Topic: name})
		}
		return nil
	}
}

// bounded lets at most n messages wait in a topic.
func bounded(name string, n int64) store.Declaration {
	return store.Declaration{Name: name, MaxWaiting: &n}
}

// TestAFullTargetHoldsBackItsSource: a quick stage before a slow one does not fill the
// topic between them beyond its maximum, give or take what is claimed in a second.
func TestAFullTargetHoldsBackItsSource(t *testing.T) {
	for _, gives := range []bool{true, false} {
		t.Run(fmt.Sprint("gives way: ", gives), func(t *testing.T) {
			bubble(t, func(r *rig) {
				first := dispatch.Topic{Name: "a", Handler: emitsTo(50*time.Millisecond, "b"), Concurrency: 1}
				if gives {
					first.Emits = []string{"b", "free"}
				}
				r.append(numbered("a", 300)...)
				r.run(dispatch.Config{Topics: []dispatch.Topic{first, {Name: "b", Handler: emitsTo(time.Second, "free"),
					Concurrency: 1, Emits: []string{"free"}, Settings: bounded("b", 10)}}})
				most, told := int64(0), false
				for range 200 {
					time.Sleep(200 * time.Millisecond)
					most = max(most, r.stats("b").Waiting)
					told = told || r.d.Snapshot().Topics[0].FullTarget == "b"
				}
				if over := most > 10+30; over == gives || told != gives {
					t.Errorf("%d messages waited of at most 10; said so: %t", most, told)
				}
				time.Sleep(10 * time.Minute)
				if st := r.stats("free"); st.Appended != 300 {
					t.Errorf("%d of 300 messages came through", st.Appended)
				}
			})
		})
	}
}

// TestACircleIsNotHeldBack: topics that lead back to themselves go on however full they
// are, and so does one before them when there is room.
func TestACircleIsNotHeldBack(t *testing.T) {
	bubble(t, func(r *rig) {
		rounds := 0
		again := func(_ context.Context, d *pawl.Delivery) error {
			if rounds++; rounds < 100 {
				d.Emit(pawl.Message{Topic: "b"})
				d.Emit(pawl.Message{Topic: "c"})
			}
			return nil
		}
		r.append(numbered("a", 20)...)
		r.run(dispatch.Config{Topics: []dispatch.Topic{
			{Name: "a", Handler: emitsTo(0, "b"), Concurrency: 2, Emits: []string{"b"}},
			{Name: "b", Handler: pawl.HandlerFunc(again), Concurrency: 1, Emits: []string{"c", "b"},
				Settings: bounded("b", 1)},
			{Name: "c", Handler: emitsTo(0, "b"), Concurrency: 1, Emits: []string{"b"}, Settings: bounded("c", 1)},
		}})
		time.Sleep(time.Hour)
		for _, name := range []string{"a", "b", "c"} {
			if st := r.stats(name); st.Acked != st.Appended {
				t.Errorf("topic %s stands still: %+v", name, st)
			}
		}
	})
}

// forgetful is a store that cannot tell which topics are full.
type forgetful struct {
	*hooked
	store.Topics
}

func (forgetful) Full(context.Context, ...string) ([]*store.TopicFullError, error) {
	return nil, &store.Error{Op: "full", Code: store.ErrUnavailable, Err: errors.New("no answer")}
}

// TestFullIsNotKnown: a store that does not answer which topics are full holds nothing
// back: what is emitted is stored in any case.
func TestFullIsNotKnown(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 50)...)
		topics, _ := store.As[store.Topics](r.store)
		d, err := dispatch.New(forgetful{r.store, topics}, dispatch.Config{Logger: quiet, Topics: []dispatch.Topic{
			{Name: "a", Handler: emitsTo(0, "b"), Emits: []string{"b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := d.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if st := r.stats("b"); st.Appended != 50 {
			t.Errorf("figures %+v", st)
		}
	})
}
