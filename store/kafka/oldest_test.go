package kafka_test

import (
	"testing"
	"time"
)

// Who has not fetched what waits does not know for how long, and does not say that it
// came just now.
func TestOldestOfWhatOthersHave(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	oldest := func() time.Duration {
		t.Helper()
		stats, err := s.Stats(t.Context(), "orders")
		if err != nil || len(stats) != 1 {
			t.Fatal(stats, err)
		}
		return stats[0].OldestWaiting
	}
	send(t, s, "orders", 0, 1)
	if d := oldest(); d >= 0 {
		t.Errorf("nobody has fetched it, and it has been waiting for %v", d)
	}
	receive(t, s, "orders", 1)
	eventually(t, "nothing waits", func() bool { return oldest() == 0 })
}
