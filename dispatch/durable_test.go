package dispatch_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// slowly makes settles of messages with a key take a second, and notes when they have taken effect.
func slowly(r *rig, seen *diary) {
	tell := func(b store.Batch[store.Settlement], do func(id string)) {
		for _, it := range b.Items {
			if it.ID[0] == 'k' {
				do(it.ID)
			}
		}
	}
	r.store.settle = func(b store.Batch[store.Settlement]) error {
		slow := false
		tell(b, func(string) { slow = true })
		if slow {
			time.Sleep(time.Second)
		}
		return nil
	}
	r.store.settled = func(b store.Batch[store.Settlement]) {
		tell(b, func(id string) { seen.add("%s is durable", id) })
	}
}

// The next message of a run begins before the ack of the one before is durable. What another
// claim brings of the lane begins afterwards, and with a hold that is each message.
func TestSettleAndWhatComesNext(t *testing.T) {
	for name, c := range map[string]struct {
		hold time.Duration
		want []string
	}{
		"run": {0, []string{
			"k-0", "k-1", "k-2", "k-0 is durable", "k-1 is durable", "k-2 is durable", "k-late", "k-late is durable",
		}},
		"hold": {time.Millisecond, []string{
			"k-0", "k-0 is durable", "k-1", "k-1 is durable", "k-2", "k-2 is durable", "k-late", "k-late is durable",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				var seen diary
				slowly(r, &seen)
				warm(r)
				r.append(keyed("a", "k", 3)...)
				r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
					if d.Key != nil {
						seen.add("%s", d.ID)
						d.Hold(c.hold)
						time.Sleep(10 * time.Millisecond)
					}
					return nil
				}))
				time.Sleep(500 * time.Millisecond)
				r.append(pawl.Message{Topic: "a", ID: "k-late", Key: []byte("k")})
				time.Sleep(time.Minute)
				equal(r, seen.list(), c.want)
			})
		})
	}
}

// The next batch begins before the verdicts of the one before are durable.
func TestSettleAndTheNextBatch(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		slowly(r, &seen)
		r.append(pawl.Message{Topic: "a", ID: "k1"}, pawl.Message{Topic: "a", ID: "k2"})
		r.run(dispatch.Config{Topics: []dispatch.Topic{{
			Name: "a", Concurrency: 1, BatchSize: 1,
			Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
				seen.add("%s", ds[0].ID)
				time.Sleep(10 * time.Millisecond)
				return make([]error, len(ds))
			}),
		}}})
		time.Sleep(time.Minute)
		got := seen.list()
		slices.Sort(got[:2])
		slices.Sort(got[2:])
		equal(r, got, []string{"k1", "k2", "k1 is durable", "k2 is durable"})
	})
}
