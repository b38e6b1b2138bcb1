package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Handlers near their deadline are counted, until they are told to end.
func TestLateHandlersAreCounted(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 3)...)
		c := one(2, func(ctx context.Context, _ *pawl.Delivery) error { <-ctx.Done(); return nil })
		c.Topics[0].Settings = store.Declaration{Deadline: time.Minute}
		r.run(c)
		time.Sleep(20 * time.Second)
		equal(r, r.d.Snapshot().Topics[0].Late, 0)
		time.Sleep(20 * time.Second)
		equal(r, r.d.Snapshot().Topics[0].Late, 2)
		time.Sleep(40 * time.Second)
		equal(r, r.d.Snapshot().Topics[0].Late, 0)
	})
}
