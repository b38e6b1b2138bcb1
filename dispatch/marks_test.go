package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// What a handler marks is written with the ack, and not by an attempt that fails.
func TestMarksComeWithTheAck(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "m"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			d.Mark(pawl.Mark{Scope: "seen", Key: string(rune('0' + d.Attempt))})
			if d.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}))
		time.Sleep(time.Minute)
		r.gone("m")
		found, err := r.mem.GetMarks(t.Context(), "seen", "1", "2")
		if err != nil || len(found) != 1 || found["2"].Key != "2" {
			r.Fatalf("%v, %v", found, err)
		}
	})
}

// markless is a store that keeps no marks.
type markless struct{ store.Store }

func (markless) Describe() store.Description { return store.Description{} }

func TestMarksWantAStoreThatKeepsThem(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.Store = markless{r.mem}
		r.append(pawl.Message{Topic: "a", ID: "m"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			d.Mark(pawl.Mark{Scope: "seen", Key: "1"})
			return nil
		}))
		time.Sleep(time.Second)
		rec := r.get("m")
		equal(r, []any{rec.State, rec.Kind}, []any{store.IsDead, pawl.KindEmit})
		equal(r, strings.Contains(rec.Reason, "keeps no marks"), true)
	})
}
