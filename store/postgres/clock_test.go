package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
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

// TestWhatIsDueSurvivesAStepBack: retries, delays, holds, permits and leases of dead workers end when they would have;
// they waited until the server's clock had caught up. Several processes find the step, and one deals with it.
func TestWhatIsDueSurvivesAStepBack(t *testing.T) {
	at := server(t)
	var skew atomic.Int64
	cfg := Config{
		URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 6, NoChores: true,
		Skew: func() time.Duration { return time.Duration(skew.Load()) },
	}
	z := &rig{t, at, cfg, open(t, cfg), t.Context()}
	z.s.exact = false
	for _, step := range []time.Duration{-5 * time.Minute, -time.Hour} {
		stores := []*Store{z.s, open(t, cfg), open(t, cfg)}
		for _, s := range stores {
			z.check(s.watch(z.ctx))
		}
		name := func(what string) string { return what + step.String() }
		for _, what := range []string{"retried", "held", "leased"} {
			z.add(name(what), name(what))
		}
		ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 3}}, store.Lease{For: 2 * time.Second})
		z.check(err)
		for _, d := range ds {
			st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Retry, After: 2 * time.Second}
			switch d.ID {
			case name("held"):
				st = store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Hold: 2 * time.Second}
			case name("leased"):
				continue
			}
			refused, err := z.s.Settle(z.ctx, store.NewBatch(st))
			if z.check(err); len(refused) > 0 {
				t.Fatal(refused)
			}
		}
		z.add(name("behind"), name("held"))
		z.appendAll(pawl.Message{ID: name("delayed"), Topic: "t", Delay: 2 * time.Second},
			pawl.Message{ID: name("far"), Topic: "far", Delay: 90 * time.Minute})
		pace := store.Pace{Key: "k", Every: time.Second, Burst: 1, N: 1, Within: 3 * time.Second}
		_, err = z.s.Reserve(z.ctx, pace)
		z.check(err)
		skew.Add(int64(step))
		// Callers remember how long they are to wait, so that the first answer after the step has to be right.
		first, err := z.s.Reserve(z.ctx, store.Pace{Key: "k", Every: time.Second, Burst: 1, N: 1})
		if z.check(err); first[0].Wait > 2*time.Second {
			t.Errorf("%v: before anybody looked, the next permit is there after %v", step, first[0].Wait)
		}
		for i := range 2 { // the third one looks later, and finds it dealt with
			z.check(stores[i].watch(z.ctx))
		}
		paced, err := z.s.Reserve(z.ctx, pace)
		if z.check(err); !paced[0].Taken {
			t.Errorf("%v: the next permit is there after %v", step, paced[0].Wait)
		}
		got := map[string]bool{}
		for end := time.Now().Add(10 * time.Second); len(got) < 4 && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
			for _, d := range z.claim(10, 1) {
				got[d.ID] = true
				z.ack(d)
			}
		}
		for _, what := range []string{"retried", "behind", "leased", "delayed"} {
			if !got[name(what)] {
				t.Errorf("%v: what was %s does not come", step, what)
			}
		}
		z.check(stores[2].watch(z.ctx))
		r, err := z.s.Get(z.ctx, name("far"))
		if z.check(err); r.State != store.Delayed {
			t.Errorf("%v: what is due in 90 minutes is %s", step, r.State)
		}
	}
}
