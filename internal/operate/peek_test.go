package operate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
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

// TestPeekReadsLittle: what it puts in order is bounded and read once; only long bodies of what is shown are read
// again.
func TestPeekReadsLittle(t *testing.T) {
	e := newExplained(t)
	for i := range 20 {
		e.append(pawl.Message{ID: fmt.Sprint(i), Key: fmt.Append(nil, i%10), Body: make([]byte, i%4*keptBody/2)})
	}
	topic, err := e.Topic(t.Context(), "t")
	e.check(err)
	w := &watched{Inspector: e}
	var ids []string
	for r, err := range Upcoming(t.Context(), w, topic, 8) {
		e.check(err)
		if n, _ := strconv.Atoi(r.ID); len(r.Body) != n%4*keptBody/2 {
			t.Errorf("the body of %s has %d bytes", r.ID, len(r.Body))
		}
		ids = append(ids, r.ID)
	}
	if fmt.Sprint(ids) != "[0 1 2 4 5 6 7]" || w.listed != 1 || w.got != 2 || w.limit != 1000 {
		t.Errorf("%v after %d listings, the last of %d, and %d look-ups", ids, w.listed, w.limit, w.got)
	}
}
