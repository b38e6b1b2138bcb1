package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// TestClockStepsBack: workers that run go on at once when the server's clock was set back, or forward and
// back again. The highest rank that they have seen is far above all new ones then.
func TestClockStepsBack(t *testing.T) {
	for _, steps := range [][]time.Duration{{-5 * time.Second}, {-time.Hour}, {time.Hour, 0}} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			t.Parallel()
			at := server(t)
			var skew atomic.Int64
			cfg := Config{
				URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 6, NoChores: true,
				Skew: func() time.Duration { return time.Duration(skew.Load()) },
			}
			z := &rig{t, at, cfg, open(t, cfg), t.Context()}
			z.s.exact = false // with the floors of a store in use
			const n = 10
			work := func(phase string) {
				for i := range n {
					z.add(fmt.Sprint(phase, i), fmt.Sprint(i))
				}
				for done, end := 0, time.Now().Add(5*time.Second); done < n; {
					ds := z.claim(1, 1)
					z.ack(ds...)
					if done += len(ds); time.Now().After(end) {
						t.Fatalf("%s: %d of %d messages were claimed in 5 s", phase, done, n)
					}
				}
			}
			work("before")
			for _, to := range steps {
				skew.Store(int64(to))
				work(fmt.Sprint("at ", to, " "))
			}
		})
	}
}
