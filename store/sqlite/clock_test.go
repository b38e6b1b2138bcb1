package sqlite

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestClockStepsBack: leases, retries, delays and permits last as long as they were to when the clock is set
// back meanwhile, or forward and back again.
func TestClockStepsBack(t *testing.T) {
	for name, steps := range map[string][]time.Duration{"back": {-time.Hour}, "forward and back": {time.Hour, -time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db"), Now: now})
			ctx := t.Context()
			wants := []store.Want{{Topic: "t", Limit: 10}}
			claim := func() []pawl.Delivery {
				ds, err := s.Claim(ctx, wants, store.Lease{For: 10 * time.Second, Owner: "w"})
				must(t, err)
				return ds
			}
			pace := store.Pace{Key: "k", Every: 5 * time.Second, Burst: 1, N: 1}
			reserve := func() bool {
				paced, err := s.Reserve(ctx, pace)
				must(t, err)
				return paced[0].Taken
			}
			for _, step := range steps {
				m := pawl.Message{Topic: "t"}
				late := pawl.Message{Topic: "t", Delay: 5 * time.Second}
				_, err := s.Append(ctx, store.NewBatch(m, m, late))
				must(t, err)
				ds := claim()
				retry := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Retry, After: 5 * time.Second}
				_, err = s.Settle(ctx, store.NewBatch(retry))
				must(t, err)
				if len(ds) != 2 || !reserve() || reserve() || len(claim()) != 0 {
					t.Fatalf("%d of 2 messages before the step", len(ds))
				}

				ahead.Add(int64(step))
				if step < 0 && (len(claim()) != 0 || reserve()) {
					t.Error("something ended with the step")
				}
				ahead.Add(int64(12 * time.Second))
				if again := claim(); len(again) != 3 || !reserve() {
					t.Fatalf("12 s after a step of %v: %d of 3 messages", step, len(again))
				} else {
					var acks []store.Settlement
					for _, d := range again {
						acks = append(acks, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
					}
					_, err := s.Settle(ctx, store.NewBatch(acks...))
					must(t, err)
				}
				ahead.Add(int64(6 * time.Second))
			}
		})
	}
}
