package convert

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// takenLook is how often a run looks whether messages of its files were taken out of the store.
const takenLook = time.Second

var errTaken = errors.New("its message was taken out of the store (by `pawl cancel` or `pawl skip`?)")

// findTaken fails files whose messages somebody has cancelled or skipped: nothing else would ever say that they are
// done, and the run would wait for them without an end.
func (r *run) findTaken(ctx context.Context) {
	topics, ok := store.As[store.Topics](r.store)
	inspector, ok2 := store.As[store.Inspector](r.store)
	if !ok || !ok2 {
		return
	}
	var missing []*held // at the last look
	for store.Sleep(ctx, takenLook) == nil {
		sent := r.hand.count(func(f *held) bool { return f.sent })
		stats, err := topics.Stats(ctx, r.topic)
		if err != nil || len(stats) == 0 || stats[0].Waiting+stats[0].Delayed+stats[0].Leased >= sent {
			missing = nil
			continue
		}
		there := map[string]bool{}
		for m, err := range inspector.List(ctx, store.Filter{Topic: r.topic}) {
			if err != nil {
				there = nil
				break
			}
			there[string(m.Body)] = true
		}
		if there == nil {
			continue
		}
		now := r.hand.lost(there)
		for _, f := range now {
			if slices.Contains(missing, f) { // it was not just claimed, or done
				_ = r.fail(ctx, f, pawl.Permanent(pawl.OfKind(pawl.KindSkipped, errTaken)), time.Now())
			}
		}
		missing = now
	}
}
