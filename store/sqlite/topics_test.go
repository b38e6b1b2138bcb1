package sqlite

import (
	"math"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestMicrosAreRoundedUp: nothing happens too soon, and the longest duration is not
// a negative one.
func TestMicrosAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second: 1e6,
		pawl.Forever: math.MaxInt64/1000 + 1,
	} {
		if got := micros(d); got != want {
			t.Errorf("%d ns are %d µs; want %d", d, got, want)
		}
	}
}
