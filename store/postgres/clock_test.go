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

// TestDutyIsTakenAfterAStepBack: chores do not rest until the server's clock has caught up with a duty that
// was taken before it was set back.
func TestDutyIsTakenAfterAStepBack(t *testing.T) {
	z := newRig(t)
	duty := z.cfg.Schema + ".duty"
	c, tx := z.tx()
	z.check(tx.Rollback(z.ctx))
	_, err := c.Exec(z.ctx, "INSERT INTO "+duty+" VALUES ('chores', clock_timestamp() + interval '1 hour')")
	z.check(err)
	z.s.chores(0)
	var far bool
	z.check(c.QueryRow(z.ctx, "SELECT until > clock_timestamp() + interval '1 minute' FROM "+duty).Scan(&far))
	if far {
		t.Error("the duty stays with whoever had it before the step")
	}
}
