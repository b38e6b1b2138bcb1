package kafka

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A pause of a process whose clock is ahead lasts no longer than its length, and what was noted does not move.
func TestPauseOfAClockAhead(t *testing.T) {
	wall := time.Unix(1_800_000_000, 0)
	ahead := wall.Add(time.Hour)
	p := &store.Pause{Since: ahead, Until: ahead.Add(2 * time.Minute)}
	var ends pauseEnds
	for _, passed := range []time.Duration{0, time.Minute} {
		if got := ends.note("a", 7, p, wall, wall.Add(passed)); !got.Equal(wall.Add(2 * time.Minute)) {
			t.Errorf("after %v it ends at %v", passed, got)
		}
	}
	p.Since, p.Until = wall, wall.Add(time.Minute)
	if got := ends.note("a", 8, p, wall, ahead); !got.Equal(ahead.Add(time.Minute)) {
		t.Errorf("the next one ends at %v", got)
	}
}
