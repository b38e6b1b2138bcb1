package dispatch_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
)

// nosy is an observer that wants to know everything.
type nosy struct{ giving }

func (n *nosy) LimitLoad(limit string, _, _ int, _, _, _ float64, _ int64) { n.add("limit "+limit, 1) }

// sums are the figures of a witness.
func (w *witness) sums() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.n)
}

// Observers side by side are told the same, each what it wants to know, and one that panics
// at a failure is the only one that misses it.
func TestObserversSideBySide(t *testing.T) {
	bubble(t, func(r *rig) {
		var all, last nosy
		var plain witness
		var log logged
		r.append(numbered("a", 3)...)
		limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "l", Concurrency: 5})
		if err != nil {
			t.Fatal(err)
		}
		c := one(3, func(_ context.Context, d *pawl.Delivery) error {
			time.Sleep(2 * time.Second)
			switch {
			case d.ID == "a-1" && d.Attempt == 1:
				return pawl.OfKind("Own", errBroken)
			case d.ID == "a-2":
				return pawl.Release(time.Hour, "later")
			}
			return nil
		})
		c.Topics[0].Limits = []*dispatch.Limiter{limit}
		c.Observer = dispatch.Observers(&all, nil, struct{ dispatch.Observer }{&plain}, &touchy{}, &last)
		c.Logger = log.logger()
		r.run(c)
		time.Sleep(time.Minute)
		want := all.sums()
		for _, what := range []string{
			"claimed a", "ran a", `ran a of ""`, "settled a ack", "settled a retry", "settled a release", "given back a",
			"load a", "limit l", "call claim", "decided a   Failed Own default retry warn none",
		} {
			if want[what] == 0 {
				t.Errorf("nobody told of %q: %q", what, slices.Sorted(maps.Keys(want)))
			}
		}
		equal(r, last.sums(), want)
		delete(want, `ran a of ""`)
		delete(want, "given back a")
		delete(want, "limit l")
		equal(r, plain.sums(), want)
		equal(r, log.count("observer panicked"), 1)
	})
}

func TestNoObservers(t *testing.T) {
	if dispatch.Observers() != nil || dispatch.Observers(nil, nil) != nil {
		t.Error("nobody is observed by somebody")
	}
}
