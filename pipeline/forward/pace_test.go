package forward

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// receiver counts what arrives, by the second and by the minute.
type receiver struct {
	mu  sync.Mutex
	all []time.Time
	by  map[int64][]time.Time
	who []string
}

func (r *receiver) arrive(chat int64, weight int, who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range weight {
		r.all = append(r.all, time.Now())
		r.by[chat] = append(r.by[chat], time.Now())
	}
	r.who = append(r.who, who)
}

// most is the largest number in any stretch of that length.
func most(times []time.Time, stretch time.Duration) (n int) {
	first := 0
	for i := range times {
		for times[i].Sub(times[first]) >= stretch {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}

// lane sends n messages as the stage does: it gives itself back when it has to wait.
func lane(ctx context.Context, p *pacer, r *receiver, chat int64, name string, rank int64, weight, n int,
	latency func() time.Duration) {
	for n > 0 && ctx.Err() == nil {
		if wait := p.enter(ctx, chat, name, rank, weight); wait > 0 {
			time.Sleep(wait)
			continue
		}
		if p.awaitTurn(ctx, rank, weight) != nil {
			p.leave(chat, weight, false, 0)
			return
		}
		time.Sleep(latency()) // on its way
		r.arrive(chat, weight, name)
		time.Sleep(latency()) // and the answer
		time.Sleep(max(p.leave(chat, weight, true, 0)-soon/2, 0))
		n--
	}
}

// No second and no minute at the receiver has more than the limits allow, whatever the latency; and what they
// allow is used.
func TestLimitsHoldAtTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(limits{all: limit{30, time.Second}, chat: limit{1, time.Second}, group: limit{20, time.Minute}})
		r := &receiver{by: map[int64][]time.Time{}}
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		latency := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(40 * time.Millisecond)))
		}
		const length = 3 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		var wg sync.WaitGroup
		for chat := int64(1); chat <= 40; chat++ {
			for l := range 3 {
				wg.Go(func() { lane(ctx, p, r, chat, fmt.Sprint(chat, "/", l), int64(l), 1, 1e6, latency) })
				wg.Go(func() { lane(ctx, p, r, -chat, fmt.Sprint(-chat, "/", l), int64(l), 1+5*(l%2), 1e6, latency) })
			}
		}
		wg.Wait()
		if n := most(r.all, time.Second); n > 30 {
			t.Errorf("%d messages in a second", n)
		}
		for chat, times := range r.by {
			if n := most(times, time.Minute); chat < 0 && n > 20 {
				t.Errorf("%d messages to group %d in a minute", n, chat)
			}
			if n := most(times, time.Second); chat > 0 && n > 1 {
				t.Errorf("%d messages to chat %d in a second", n, chat)
			}
		}
		if rate := float64(len(r.all)) / length.Seconds(); rate < 27 {
			t.Errorf("%.1f messages a second; the limits allow 30", rate)
		}
	})
}

// Of the lanes that wait for one chat, the one of the best rank has the next turn.
func TestTheBestRankHasTheNextTurn(t *testing.T) {
	for _, rate := range []int{1, 20, 50} {
		t.Run(fmt.Sprint(rate, " a second"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(limits{all: limit{100, time.Second}, chat: limit{rate, time.Second}})
				r := &receiver{by: map[int64][]time.Time{}}
				quick := func() time.Duration { return 5 * time.Millisecond }
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				var wg sync.WaitGroup
				for l := range 50 {
					wg.Go(func() { lane(ctx, p, r, 1, fmt.Sprint("bulk", l), 1000, 1, 1e6, quick) })
				}
				for i := range 10 {
					time.Sleep(4700*time.Millisecond/time.Duration(rate) + time.Duration(i)*7*time.Millisecond)
					r.mu.Lock()
					before := len(r.who)
					r.mu.Unlock()
					lane(ctx, p, r, 1, "vip", 1, 1, 1, quick)
					r.mu.Lock()
					// One may have been on its way.
					if at := slices.Index(r.who[before:], "vip"); at < 0 || at > 1 {
						t.Errorf("the VIP message went after %d others", at)
					}
					r.mu.Unlock()
				}
				// An answer takes 10 ms, the gap after it 10 ms more than the limit's.
				each := time.Second/time.Duration(rate) + 20*time.Millisecond
				if could := int(time.Since(began) / each); len(r.who) < could*8/10 {
					t.Errorf("%d messages; there was time for %d", len(r.who), could)
				}
				cancel()
				wg.Wait()
			})
		})
	}
}

func TestLimitOfARate(t *testing.T) {
	for rate, want := range map[float64]limit{
		30: {30, time.Second}, 1: {1, time.Second}, 20.0 / 60: {20, time.Minute}, 1.0 / 60: {1, time.Minute},
		1.0 / 3600: {1, time.Hour}, 0: {},
	} {
		if got := limitOf(rate); got.n != want.n || (got.per-want.per).Abs() > time.Millisecond {
			t.Errorf("%v a second is %+v", rate, got)
		}
	}
}
