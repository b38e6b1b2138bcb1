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
	ends(w, limit.Served, 19, at)
	want(20)
	ends(w, limit.Served, 1, at)
	want(21)
	ends(w, limit.Served, 20, at)
	ends(w, limit.Failed, 5, at) // says nothing
	ends(w, limit.Served, 1, at)
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
	ends(w, limit.Served, 39, at) // a row has no less than 40 once it was cut
	want(20)
	ends(w, limit.Served, 1, at)
	want(21)
	ends(w, limit.Served, 2*40, at) // now it is where it was cut, and then above
	want(23)
	ends(w, limit.Served, 3, at)
	want(26)
	for i := range 10 {
		ends(w, limit.Refused, 1, at.Add(time.Duration(i+1)*time.Minute))
	}
	want(1)
	w.Ended(limit.Call{Outcome: limit.Served}) // it was not used up
	want(1)
	ends(w, limit.Served, 1, at.Add(time.Hour)) // so small, it is not careful
	want(2)
	w = steps(99, 3)
	ends(w, limit.Served, 9, at)
	want(100)
}

// TestStepsUseALimit: nearly all of what the downstream takes is used, little is
// refused, and a limit that has moved is found again within half a minute.
func TestStepsUseALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random, mean := rand.New(rand.NewPCG(1, 2)), 100*time.Millisecond
		var mu sync.Mutex
		s := &downstream{takes: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return mean/2 + time.Duration(random.Float64()*float64(mean))
		}}
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
