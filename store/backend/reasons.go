package backend

import (
	"github.com/pawl-dev/pawl/store"
)

// LonelyReason is the reason of a dead letter whose leases, claimed alone, ended unsettled
// three times.
const LonelyReason = "its worker died or hung three times with nothing else at hand"

// ParkedReason is the reason of a dead letter that was parked.
const ParkedReason = "waited behind a dead letter of its lane"

// ReleasedReason is the reason that a release leaves.
func ReleasedReason(f *store.Failure) string {
	if f.Error == "" {
		return store.CauseReleased
	}
	return store.CauseReleased + ": " + store.Text(f.Error)
}
