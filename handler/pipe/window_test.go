package pipe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestWindow lets simulated programs answer, with the window always full, and
// looks at where the window settles.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name     string
		min, max int
		took     func(held int) time.Duration // to answer when so many are held
	}{
		{"one by one, 5µs each", 256, 256, func(n int) time.Duration {
			return time.Duration(n) * 5 * time.Microsecond
		}},
		{"one by one, 50µs each", 64, 256, func(n int) time.Duration {
			return time.Duration(n) * 50 * time.Microsecond
		}},
		{"one by one, 1ms each", 2, 8, func(n int) time.Duration { return time.Duration(n) * time.Millisecond }},
		{"one by one, 5ms each", 1, 2, func(n int) time.Duration { return time.Duration(n) * 5 * time.Millisecond }},
		{"one by one, 30ms each", 1, 2, func(n int) time.Duration { return time.Duration(n) * 30 * time.Millisecond }},
		{"one by one, 2s each", 1, 2, func(n int) time.Duration { return time.Duration(n) * 2 * time.Second }},
		{"one by one, 1min each", 1, 1, func(n int) time.Duration { return time.Duration(n) * time.Minute }},
		{"side by side, 1s each", 256, 256, func(int) time.Duration { return time.Second }},
		{"eight side by side, 200ms each", 8, 16, func(n int) time.Duration {
			return time.Duration((n+7)/8) * 200 * time.Millisecond
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, now := newWindow(0), time.Now()
			smallest, largest := MaxInFlight, 0
			for i := range 20_000 {
				took := c.took(w.size)
				now = now.Add(took / time.Duration(w.size))
				w.answered(took, w.size, false, now)
				if i > 10_000 {
					smallest, largest = min(smallest, w.size), max(largest, w.size)
				}
			}
			if smallest < c.min || largest > c.max {
				t.Errorf("between %d and %d, not between %d and %d", smallest, largest, c.min, c.max)
			}
		})
	}
}

func TestWindowShrinksWhenTheProgramGetsSlow(t *testing.T) {
	w, now := newWindow(0), time.Now()
	for range 10_000 {
		w.answered(time.Millisecond, w.size, false, now)
	}
	if w.size != MaxInFlight {
		t.Fatalf("%d while it is quick", w.size)
	}
	for range 2_000 {
		took := time.Duration(w.size) * 100 * time.Millisecond
		now = now.Add(100 * time.Millisecond)
		w.answered(took, w.size, false, now)
	}
	if w.size > 2 {
		t.Errorf("%d when it is slow", w.size)
	}
}

func TestWindowDoesNotGrowUnused(t *testing.T) {
	w := newWindow(0)
	for range 100 {
		w.answered(time.Millisecond, 1, false, time.Now())
	}
	if w.size != 2 {
		t.Errorf("%d, though the program never held two", w.size)
	}
}

// TestWindowIsNotFooledByChance lets a program that works on one after the other
// take exponentially distributed times, and looks how often the window is larger
// than it should be.
func TestWindowIsNotFooledByChance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w, now := newWindow(0), time.Now()
	var free time.Time // when the program is done with all it holds
	var given []time.Time
	large, total := 0, 0
	for range 50_000 {
		for len(given) < w.size {
			given = append(given, now)
		}
		free = now.Add(time.Duration(r.ExpFloat64() * 5 * float64(time.Millisecond)))
		now = free
		w.answered(now.Sub(given[0]), len(given), false, now)
		given = given[1:]
		if total++; w.size > 2 {
			large++
		}
	}
	if large > total/50 {
		t.Errorf("the window was larger than 2 for %d of %d answers", large, total)
	}
}

// TestWindowSeesWhoAnswersOutOfOrder lets a program work side by side, with times
// of which a mean alone would tell little.
func TestWindowSeesWhoAnswersOutOfOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w, now := newWindow(0), time.Now()
	type held struct{ given, done time.Time }
	var holds []held
	for n := 0; w.size < 64; n++ {
		for len(holds) < w.size {
			holds = append(holds, held{now, now.Add(time.Duration(r.ExpFloat64() * float64(time.Second)))})
		}
		first := 0
		for i := range holds {
			if holds[i].done.Before(holds[first].done) {
				first = i
			}
		}
		now = holds[first].done
		w.answered(now.Sub(holds[first].given), len(holds), first > 0, now)
		holds = slices.Delete(holds, first, first+1)
		if n > 5_000 {
			t.Fatalf("the window is %d after %d answers", w.size, n)
		}
	}
}

// TestWindowEndsWhereOutOfOrderEnds lets a program work on four side by side: it
// answers out of order however many it holds.
func TestWindowEndsWhereOutOfOrderEnds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w, now := newWindow(0), time.Now()
	type held struct{ given, done time.Time }
	var holds []held // the first four are worked on
	sum := 0
	const answers = 50_000
	for range answers {
		for len(holds) < w.size {
			holds = append(holds, held{given: now})
		}
		first := 0
		for i := range min(4, len(holds)) {
			if holds[i].done.IsZero() {
				holds[i].done = now.Add(time.Duration(r.ExpFloat64() * 10 * float64(time.Millisecond)))
			}
			if holds[i].done.Before(holds[first].done) {
				first = i
			}
		}
		now = holds[first].done
		w.answered(now.Sub(holds[first].given), len(holds), first > 0, now)
		holds = slices.Delete(holds, first, first+1)
		sum += w.size
	}
	if mean := float64(sum) / answers; mean < 3 || mean > 9 {
		t.Errorf("the window was %.1f on average; the program works on 4", mean)
	}
}
