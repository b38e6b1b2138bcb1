package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// A process whose limit lets nothing begin claims nothing, not even for reserved slots: what it held would be
// out of the reach of others.
func TestABarredTopicIsNotProbed(t *testing.T) {
	bubble(t, func(r *rig) {
		l, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "gate", Size: func() float64 { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		var claims atomic.Int32
		r.store.set(func() {
			r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil }
		})
		r.run(dispatch.Config{Topics: []dispatch.Topic{
			{Name: "a", Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil }),
				Concurrency: 8, Reserved: 2, Limits: []*dispatch.Limiter{l}},
		}})
		r.append(pawl.Message{Topic: "a"}, pawl.Message{Topic: "a", Priority: pawl.MaxPriority})
		time.Sleep(time.Minute)
		if n := claims.Load(); n > 0 {
			t.Errorf("%d claims", n)
		}
	})
}
