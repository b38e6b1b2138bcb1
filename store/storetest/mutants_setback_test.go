package storetest_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/storetest"
)

// TestClockMutant: a store that does not notice that its clock was set back is rejected.
func TestClockMutant(t *testing.T) {
	careless := inMemory(nil)
	opened := careless.Open
	careless.Open = func(t testing.TB) *storetest.Instance {
		in := opened(t)
		in.SetBack = func(d time.Duration) { in.Advance(-d) }
		return in
	}
	storetest.Rejects(t, careless, "ClockIsSetBack", "ClockIsSetBackForNewOnes", "ClockIsSetBackForMarks")
}
