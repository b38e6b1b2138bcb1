package app

import (
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
	e.append(pawl.Message{ID: "leased", Key: []byte("l")}, pawl.Message{ID: "behind leased", Key: []byte("l"), Priority: 90})
	e.claim(store.Lease{})
	e.append(pawl.Message{ID: "repeated", Key: []byte("r"), Priority: 100}, pawl.Message{ID: "behind repeated", Key: []byte("r"), Priority: 80})
	e.settle(store.Settlement{Verdict: store.Retry, After: time.Minute, Failure: store.Failure{Error: "no"}})
	e.append(pawl.Message{ID: "low", Key: oneKey}, pawl.Message{ID: "later", Key: oneKey, Priority: 100, Delay: time.Hour})
	e.now = e.now.Add(time.Second)
	e.append(pawl.Message{ID: "high", Key: oneKey, Priority: 100}, pawl.Message{ID: "free"}, pawl.Message{ID: "free, high", Priority: 50}, pawl.Message{ID: "alone", Key: []byte("a"), Priority: 40})
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
