package limit_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dispatch/internal/limit"
)

// downstream is a server with a limit that nobody is told of.
type downstream struct {
	takes func() time.Duration

	mu       sync.Mutex
	most     int     // calls at once; 0: any
	rate     float64 // calls a second; 0: any
	tokens   float64
	at       time.Time
	inFlight int
	served   int
	refused  int
}

// call is a call of it; false when it was refused.
func (s *downstream) call() bool {
	s.mu.Lock()
	if !s.allows(time.Now()) {
		s.refused++
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		return false
	}
	s.inFlight++
	s.mu.Unlock()
	time.Sleep(s.takes())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	s.served++
	return true
}

func (s *downstream) allows(now time.Time) bool {
	if s.most > 0 {
		return s.inFlight < s.most
	}
	s.tokens = min(s.tokens+now.Sub(s.at).Seconds()*s.rate, max(s.rate/20, 1))
	s.at = now
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

func (s *downstream) set(most int, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.rate, s.tokens, s.at = most, rate, 0, time.Now()
}

func (s *downstream) take() (served, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served, refused = s.served, s.refused
	s.served, s.refused = 0, 0
	return served, refused
}

// drive keeps up to so many calls at the downstream, as a limiter lets it.
func drive(l *limit.Limiter, s *downstream, most int, after time.Duration, stop <-chan struct{}) {
	ended := make(chan struct{}, most)
	for inFlight := 0; ; {
		wait, ok := time.Duration(0), inFlight < most
		if ok {
			wait, ok = l.Admit("")
		}
		if ok {
			inFlight++
			go func() {
				began, o := time.Now(), limit.Served
				if !s.call() {
					o = limit.Refused
				}
				l.Ended("", time.Since(began), o, after)
				ended <- struct{}{}
			}()
			continue
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ended:
			inFlight--
		case <-timer:
		case <-stop:
			return
		}
	}
}

// TestFollowsAHiddenLimit: whatever the downstream bears, nearly all of it is
// used and little is refused, and a limit that has moved is found again soon.
func TestFollowsAHiddenLimit(t *testing.T) {
	type phase struct {
		most int
		rate float64
	}
	for name, c := range map[string]struct {
		mean   time.Duration
		after  time.Duration // what it asks for
		phases []phase
	}{
		"at once": {50 * time.Millisecond, 0,
			[]phase{{most: 50}, {most: 120}, {most: 20}, {most: 80}, {most: 5}, {most: 40}}},
		"at once, slow": {500 * time.Millisecond, 0, []phase{{most: 30}, {most: 100}, {most: 15}}},
		"a second": {20 * time.Millisecond, 0,
			[]phase{{rate: 500}, {rate: 2000}, {rate: 200}, {rate: 1000}}},
		"at once, with Retry-After": {50 * time.Millisecond, time.Second,
			[]phase{{most: 50}, {most: 120}, {most: 20}, {most: 80}}},
		"a second, with Retry-After": {20 * time.Millisecond, time.Second,
			[]phase{{rate: 500}, {rate: 2000}, {rate: 200}}},
		"a second, quickly": {2 * time.Millisecond, 0, []phase{{rate: 300}, {rate: 1500}, {rate: 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &downstream{takes: about(c.mean)}
				l := limit.New(limit.Config{Window: func() limit.Window { return limit.NewAIMD(0.1, 200) }})
				stop := make(chan struct{})
				for i, p := range c.phases {
					s.set(p.most, p.rate)
					if i == 0 {
						go drive(l, s, 200, c.after, stop)
					}
					time.Sleep(30 * time.Second) // to recover
					served, refused := s.take()
					moving := float64(refused) / float64(served+refused)
					time.Sleep(time.Minute)
					served, refused = s.take()
					could := p.rate * 60
					if p.most > 0 {
						could = float64(p.most) * 60 / c.mean.Seconds()
					}
					goodput, share := float64(served)/could, float64(refused)/float64(served+refused)
					t.Logf("%+v: goodput %.1f %%, refused %.1f %%, while it moved %.1f %%, window %.2f", p, 100*goodput,
						100*share, 100*moving, l.State().Size)
					if goodput < 0.9 || share > 0.05 || moving > 0.05 {
						t.Errorf("%+v: goodput %.1f %%, refused %.1f %%, while it moved %.1f %%", p, 100*goodput,
							100*share, 100*moving)
					}
				}
				close(stop)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestRateIsKept over any time, from the first call on, and for each key alone.
func TestRateIsKept(t *testing.T) {
	for _, c := range []limit.Config{{Rate: 0.5}, {Rate: 30}, {Rate: 500}, {Rate: 100, Burst: 50}} {
		synctest.Test(t, func(t *testing.T) {
			l := limit.New(c)
			for key := range 3 {
				n, began := 0, time.Now()
				for time.Since(began) < 20*time.Second {
					wait, ok := l.Admit(fmt.Sprint(key))
					if ok {
						n++
						l.Ended(fmt.Sprint(key), 0, limit.Served, 0)
						continue
					}
					if wait <= 0 {
						t.Fatal("nothing is under way, and it does not say when")
					}
					time.Sleep(wait)
				}
				burst := c.Burst
				if burst == 0 {
					burst = max(int(c.Rate/10), 1)
				}
				if most := c.Rate*20 + float64(burst); float64(n) > most || float64(n) < 0.99*c.Rate*20 {
					t.Errorf("%+v: %d in 20 s", c, n)
				}
			}
		})
	}
}

// TestConcurrencyIsKept for each key alone; an end makes room.
func TestConcurrencyIsKept(t *testing.T) {
	l := limit.New(limit.Config{Concurrency: 2})
	for _, key := range []string{"a", "b"} {
		for i, want := range []bool{true, true, false} {
			if wait, ok := l.Admit(key); ok != want || wait != 0 {
				t.Fatalf("%s, call %d: %v, wait %v", key, i, ok, wait)
			}
		}
	}
	l.Ended("a", 0, limit.Served, 0)
	if _, ok := l.Admit("b"); ok {
		t.Error("b has room by an end of a")
	}
	if _, ok := l.Admit("a"); !ok {
		t.Error("a has no room after an end")
	}
}

// TestRetryAfterIsHonoured: nothing begins sooner.
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Concurrency: 9, Keyed: true})
		for range 2 {
			l.Admit("a")
		}
		l.Ended("a", 0, limit.Refused, 3*time.Second)
		l.Ended("a", 0, limit.Refused, time.Second) // shorter: it changes nothing
		if wait, ok := l.Admit("a"); ok || wait != 3*time.Second || room(l, "a", time.Second) != 0 {
			t.Fatal(wait, ok)
		}
		if _, ok := l.Admit("b"); !ok {
			t.Error("another key is closed, too")
		}
		time.Sleep(3 * time.Second)
		if _, ok := l.Admit("a"); !ok {
			t.Error("still closed")
		}
	})
}

// TestRefusalWhereNothingMayBegin: a call that is refused while the size is 0 closes the limit for the longest pause, a
// quarter of a call.
func TestRefusalWhereNothingMayBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := 1.0
		l := limit.New(limit.Config{Window: func() limit.Window { return limit.Stated(func() float64 { return size }) }})
		l.Admit("")
		time.Sleep(time.Second)
		l.Ended("", time.Second, limit.Served, 0)
		l.Admit("")
		time.Sleep(time.Second)
		size = 0
		l.Ended("", time.Second, limit.Refused, 0)
		size = 1
		if wait, ok := l.Admit(""); ok || wait != 250*time.Millisecond {
			t.Errorf("admitted %v, or in %v", ok, wait)
		}
	})
}

// TestAwaySpreads what is sent away, so that it comes back at the rate.
func TestAwaySpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Rate: 10})
		l.Admit("a")
		var last time.Duration
		for i := range 100 {
			wait, ok := l.Admit("a")
			if ok {
				t.Fatal("admitted beyond the rate")
			}
			after := l.Away("a", strconv.Itoa(i), wait)
			if i > 0 && (after-last) < 99*time.Millisecond {
				t.Fatalf("message %d comes back %v after the one before it", i, after-last)
			}
			last = after
		}
		if last > 11*time.Second {
			t.Errorf("the last one comes back after %v", last)
		}
	})
}

// TestUndoGivesEverythingBack.
func TestUndoGivesEverythingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Rate: 1, Concurrency: 1})
		for range 5 {
			if _, ok := l.Admit("a"); !ok {
				t.Fatal("an undone call counts")
			}
			l.Undo("a")
		}
	})
}

func room(l *limit.Limiter, key string, while time.Duration) int {
	n, _ := l.Room(key, while)
	return n
}

// TestRoom is what Admit allows.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []limit.Config{{Concurrency: 7}, {Rate: 50, Burst: 7},
			{Window: func() limit.Window { return limit.NewAIMD(7, 7) }}} {
			l := limit.New(c)
			if n := room(l, "", 0); n != 7 {
				t.Errorf("%+v: room %d", c, n)
			}
			for room(l, "", 0) > 0 {
				if _, ok := l.Admit(""); !ok {
					t.Fatalf("%+v: room %d, but not admitted", c, room(l, "", 0))
				}
			}
			if _, ok := l.Admit(""); ok {
				t.Errorf("%+v: admitted without room", c)
			}
		}
		l := limit.New(limit.Config{Rate: 100, Burst: 1})
		l.Admit("")
		if n := room(l, "", 50*time.Millisecond); n != 5 {
			t.Errorf("within 50 ms at 100/s: %d", n)
		}
	})
}

// TestIdleBucketsAreForgotten, and others are not.
func TestIdleBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Config{Rate: 1000})
		l.Admit("busy")
		for i := range 100_000 {
			key := fmt.Sprint(i)
			l.Admit(key)
			l.Ended(key, 0, limit.Served, 0)
			time.Sleep(time.Millisecond)
		}
		if s := l.State(); s.Buckets > 3000 || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	l := limit.New(limit.Config{Rate: 1e6, Concurrency: 100, Window: func() limit.Window {
		return limit.NewAIMD(1, 100)
	}})
	for b.Loop() {
		if _, ok := l.Admit("a"); ok {
			l.Ended("a", time.Millisecond, limit.Served, 0)
		}
	}
}

// fixed is a window that does not learn.
type fixed float64

func (f fixed) Size() float64  { return float64(f) }
func (fixed) Ended(limit.Call) {}

// One key that is refused everything is hidden in the sum of all windows, and one that
// nothing waits for matters to nobody.
func TestLeastWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := []float64{40, 1, 0.5}
		l := limit.New(limit.Config{Keyed: true, Window: func() limit.Window {
			size := sizes[0]
			sizes = sizes[1:]
			return fixed(size)
		}})
		least := func(want float64) {
			t.Helper()
			if s := l.State(); s.Least != want {
				t.Errorf("the least is %v of %v, want %v", s.Least, s.Size, want)
			}
		}
		admit := func(key string, want bool) {
			t.Helper()
			if _, ok := l.Admit(key); ok != want {
				t.Errorf("%s may begin: %v", key, ok)
			}
		}
		admit("well", true)
		admit("pinned", true)
		admit("idle", true)
		least(0) // nothing waits
		for range 39 {
			admit("well", true)
		}
		admit("well", false)
		least(40)
		admit("pinned", false)
		least(1)
		time.Sleep(time.Hour)
		least(1) // a long call
		l.Ended("pinned", time.Hour, limit.Served, 0)
		least(40)
		admit("pinned", true)
		least(40)
	})
}

func TestLeastOfTheOnlyWindow(t *testing.T) {
	l := limit.New(limit.Config{Window: func() limit.Window { return fixed(0.5) }})
	if s := l.State(); s.Least != 0 {
		t.Errorf("%+v", s)
	}
	l.Admit("") // what is not claimed, as there is no room, does not ask
	if s := l.State(); s.Least != 0.5 {
		t.Errorf("%+v", s)
	}
}
