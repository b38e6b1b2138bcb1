package operate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestUpcomingShowsTheHeadsOfLanes: of a key comes what was there first, whatever the
// ranks, and nothing while its lane is leased or closed.
func TestUpcomingShowsTheHeadsOfLanes(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "leased", Key: []byte("l")}, pawl.Message{ID: "behind leased", Key: []byte("l"),
		Priority: 90})
	e.claim(store.Lease{})
	e.append(pawl.Message{ID: "repeated", Key: []byte("r"), Priority: 100},
		pawl.Message{ID: "behind repeated", Key: []byte("r"), Priority: 80})
	e.settle(store.Settlement{Verdict: store.Retry, After: time.Minute, Failure: store.Failure{Error: "no"}})
	e.append(pawl.Message{ID: "low", Key: oneKey}, pawl.Message{ID: "later", Key: oneKey, Priority: 100,
		Delay: time.Hour})
	e.now = e.now.Add(time.Second)
	e.append(pawl.Message{ID: "high", Key: oneKey, Priority: 100}, pawl.Message{ID: "free"},
		pawl.Message{ID: "free, high", Priority: 50}, pawl.Message{ID: "alone", Key: []byte("a"), Priority: 40})
	order := []string{"free, high", "alone", "low", "free", "high", "behind leased", "behind repeated"}
	topic, err := e.Topic(t.Context(), "t")
	e.check(err)
	for _, n := range []int{1, 3, 100} {
		var got []string
		for r, err := range Upcoming(t.Context(), e, topic, n) {
			e.check(err)
			got = append(got, r.ID)
		}
		if want := order[:min(n, len(order))]; !slices.Equal(got, want) {
			t.Errorf("the first %d are %q, want %q", n, got, want)
		}
	}
	claimed := e.claim(store.Lease{})
	if claimed.ID != order[0] {
		t.Errorf("%s is carried out", claimed.ID)
	}
}

// watched counts what is asked of a store.
type watched struct {
	store.Inspector
	listed, got int
	limit       int
}

func (w *watched) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	w.listed++
	w.limit = f.Limit
	return w.Inspector.List(ctx, f)
}

func (w *watched) Get(ctx context.Context, id string) (store.Record, error) {
	if w.got++; id == "3" {
		return store.Record{}, &store.Error{Op: "get", Code: store.ErrNotFound} // done meanwhile
	}
	return w.Inspector.Get(ctx, id)
}

// reading is a store that finds messages by reading.
type reading struct {
	*watched
	store.Store
}

func (reading) Describe() store.Description { return store.Description{} }

// TestPeekReadsLittle: what it puts in order is bounded, and only what is shown is read
// again, by id where the store finds one so.
func TestPeekReadsLittle(t *testing.T) {
	e := newExplained(t)
	for i := range 20 {
		e.append(pawl.Message{ID: fmt.Sprint(i), Key: fmt.Append(nil, i%10)})
	}
	topic, err := e.Topic(t.Context(), "t")
	e.check(err)
	for _, c := range []struct {
		byID        bool
		listed, got int
		want        string
	}{{true, 1, 4, "[0 1 2]"}, {false, 2, 0, "[0 1 2 3]"}} {
		w := &watched{Inspector: e}
		var i store.Inspector = w
		if !c.byID {
			i = reading{w, e.Store}
		}
		var ids []string
		for r, err := range Upcoming(t.Context(), i, topic, 4) {
			e.check(err)
			ids = append(ids, r.ID)
		}
		if fmt.Sprint(ids) != c.want || w.listed != c.listed || w.got != c.got || w.limit != 1000 {
			t.Errorf("by id: %v: %v after %d listings, the last of %d, and %d look-ups", c.byID, ids, w.listed,
				w.limit, w.got)
		}
	}
}
