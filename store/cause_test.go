package store_test

import (
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// What is written of a release is read back as its cause.
func TestCause(t *testing.T) {
	for reason, want := range map[string]store.Cause{
		"":                                       {},
		"appended":                               {Code: store.CauseAppended},
		"replayed":                               {Code: store.CauseReplayed},
		"connection failed":                      {},
		backend.ReleasedReason(&store.Failure{}): {Code: store.CauseReleased},
		backend.ReleasedReason(&store.Failure{Error: "draining"}):                {Code: store.CauseReleased, By: "draining"},
		backend.ReleasedReason(&store.Failure{Error: store.LimitedBy("mail.2")}): {Code: store.CauseLimited, By: "mail.2"},
	} {
		if got := (&store.Record{Reason: reason}).Cause(); got != want {
			t.Errorf("%q: %+v, want %+v", reason, got, want)
		}
		failed := &store.Record{Reason: reason, History: []store.Attempt{{Error: reason}}}
		if got := failed.Cause(); got != (store.Cause{}) {
			t.Errorf("a handler that failed with %q: %+v", reason, got)
		}
	}
}
