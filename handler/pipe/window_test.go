package pipe

import (
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
		{"5µs each", 256, 256, func(n int) time.Duration { return time.Duration(n) * 5 * time.Microsecond }},
		{"50µs each", 64, 256, func(n int) time.Duration { return time.Duration(n) * 50 * time.Microsecond }},
		{"1ms each", 2, 8, func(n int) time.Duration { return time.Duration(n) * time.Millisecond }},
		{"5ms each", 1, 2, func(n int) time.Duration { return time.Duration(n) * 5 * time.Millisecond }},
		{"1min each", 1, 1, func(n int) time.Duration { return time.Duration(n) * time.Minute }},
		{"many at once, 1s each", 1, 1, func(int) time.Duration { return time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWindow(0)
			smallest, largest := MaxInFlight, 0
			for i := range 20_000 {
				w.answered(c.took(w.size), w.size)
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
	w := newWindow(0)
	for range 10_000 {
		w.answered(time.Millisecond, w.size)
	}
	if w.size != MaxInFlight {
		t.Fatalf("%d while it is quick", w.size)
	}
	for range 2_000 {
		w.answered(time.Duration(w.size)*100*time.Millisecond, w.size)
	}
	if w.size > 2 {
		t.Errorf("%d when it is slow", w.size)
	}
}

func TestWindowDoesNotGrowUnused(t *testing.T) {
	w := newWindow(0)
	for range 100 {
		w.answered(time.Millisecond, 1)
	}
	if w.size != 2 {
		t.Errorf("%d, though the program never held two", w.size)
	}
}

func TestStatedWindowStays(t *testing.T) {
	w := newWindow(8)
	for _, took := range []time.Duration{time.Microsecond, time.Minute} {
		for range 1000 {
			w.answered(took, 8)
		}
		if w.size != 8 {
			t.Errorf("%d after answers of %v", w.size, took)
		}
	}
}
