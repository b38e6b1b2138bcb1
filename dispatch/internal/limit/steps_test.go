package limit_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dispatch/internal/limit"
)

func steps(start, after int) *limit.Steps {
	return limit.NewSteps(limit.StepsConfig{Min: 1, Max: 100, Start: float64(start), Step: 1, After: after,
		Factor: 0.5})
}

// ends tells a window of n calls that all began at once.
func ends(w *limit.Steps, o limit.Outcome, n int, began time.Time) {
	for range n {
		w.Ended(limit.Call{Began: began, Ended: began.Add(time.Second), Full: true, Outcome: o})
	}
}

func TestStepsFollowTheRule(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := steps(20, 0)
	want := func(size float64) {
		t.Helper()
		if w.Size() != size {
			t.Fatalf("size %v; want %v", w.Size(), size)
		}
	}
	ends(w, limit.Served, 2, at) // no limit was met yet
	want(22)
	ends(w, limit.Failed, 5, at) // says nothing
	want(22)
	ends(w, limit.Refused, 9, at) // one flight
	want(11)
	ends(w, limit.Served, 8, at) // one by one up to 0.9 of 22
	want(19)
	ends(w, limit.Served, 1, at)
	want(20)
	ends(w, limit.Served, 19, at)
	want(20)
	ends(w, limit.Refused, 1, at) // of the flight that was cut: it ends the row
	ends(w, limit.Served, 39, at) // a row has no less than 40 at that size
	want(20)
	ends(w, limit.Served, 1, at)
	want(21)
	ends(w, limit.Served, 40, at) // now it is where it was cut, and nothing is refused
	want(22)
	ends(w, limit.Served, 4, at)
	want(26)
	for i := range 10 {
		ends(w, limit.Refused, 1, at.Add(time.Duration(i+1)*time.Minute))
	}
	want(1)
	w.Ended(limit.Call{Outcome: limit.Served}) // it was not used up
	want(1)
	ends(w, limit.Served, 1, at.Add(time.Hour)) // so small, it is not careful
	want(2)
	w = steps(98, 3) // a row of three is stated
	ends(w, limit.Served, 5, at)
	want(99)
	ends(w, limit.Served, 9, at)
	want(100)
	w = steps(10, 0)
	ends(w, limit.Refused, 1, at) // at 10: now 5
	ends(w, limit.Served, 4, at)
	want(9)
	w = steps(6, 0)
	ends(w, limit.Refused, 1, at)
	ends(w, limit.Served, 2+23, at) // a row of a small window
	want(5)
	ends(w, limit.Served, 1, at)
	want(6)
}

// TestStepsFindASlowLimitSoon: one whose calls take a second is found as soon as one that answers at once, at the start
// and after it has doubled.
func TestStepsFindASlowLimitSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &downstream{takes: about(time.Second)}
		l := limit.New(limit.Config{Window: func() limit.Window { return steps(10, 0) }})
		stop := make(chan struct{})
		for i, c := range []struct {
			most int
			wait time.Duration
		}{{80, 0}, {40, 0}, {80, 20 * time.Second}} {
			s.set(c.most, 0)
			if i == 0 {
				go drive(l, s, 200, 0, stop)
			}
			time.Sleep(c.wait)
			s.take()
			time.Sleep(30 * time.Second)
			served, refused := s.take()
			goodput, share := float64(served)/float64(30*c.most), float64(refused)/float64(served+refused)
			t.Logf("at most %d: goodput %.1f %%, refused %.1f %%", c.most, 100*goodput, 100*share)
			if goodput < 0.8 || share > 0.05 {
				t.Errorf("at most %d: goodput %.1f %%, refused %.1f %%", c.most, 100*goodput, 100*share)
			}
		}
		close(stop)
		time.Sleep(time.Minute)
	})
}

// about draws from half of a time to one and a half.
func about(mean time.Duration) func() time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return mean/2 + time.Duration(random.Float64()*float64(mean))
	}
}

// TestStepsUseALimit: nearly all of what the downstream takes is used, little is
// refused, and a limit that has moved is found again within half a minute.
func TestStepsUseALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mean := 100 * time.Millisecond
		s := &downstream{takes: about(mean)}
		l := limit.New(limit.Config{Window: func() limit.Window { return steps(10, 0) }})
		stop := make(chan struct{})
		for i, most := range []int{40, 80, 5, 10, 20, 60} {
			s.set(most, 0)
			if i == 0 {
				go drive(l, s, 200, 0, stop)
			}
			time.Sleep(30 * time.Second)
			s.take()
			time.Sleep(time.Minute)
			served, refused := s.take()
			goodput, share := float64(served)/(float64(most)*60/mean.Seconds()),
				float64(refused)/float64(served+refused)
			t.Logf("at most %d: goodput %.1f %%, refused %.1f %%", most, 100*goodput, 100*share)
			if goodput < 0.9 || share > 0.05 {
				t.Errorf("at most %d: goodput %.1f %%, refused %.1f %%", most, 100*goodput, 100*share)
			}
		}
		close(stop)
		time.Sleep(time.Minute)
	})
}
