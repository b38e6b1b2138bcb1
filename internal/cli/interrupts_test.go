package cli

import (
	"testing"
	"time"
)

// A signal to the process and one to its group are one request to end; the next
// one, whenever it comes, is the second.
func TestSignalsAtOnceAreOneRequest(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		after []time.Duration
		want  bool // of the last one
	}{
		{[]time.Duration{0}, false},
		{[]time.Duration{0, 2 * time.Millisecond, oneRequest}, false},
		{[]time.Duration{0, oneRequest + 1}, true},
		{[]time.Duration{0, 2 * time.Millisecond, time.Hour}, true},
	} {
		asked, last := interrupts{}, false
		for _, d := range c.after {
			last = asked.again(now.Add(d))
		}
		if last != c.want {
			t.Errorf("after %v: %v", c.after, last)
		}
	}
}
