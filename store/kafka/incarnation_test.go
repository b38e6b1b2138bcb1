package kafka_test

import (
	"testing"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// TestCommittedBehindTheEnd: an offset behind the end of the log, of a topic that
// was made again or cut, must not make what is in the log, or comes, look done.
func TestCommittedBehindTheEnd(t *testing.T) {
	t.Parallel()
	broker := fakeCluster(t, 1).ListenAddrs()
	s := open(t, brisk(broker))
	send(t, s, "orders", 0, 10)
	commit(t, broker, "pawl", "orders", 500, "")
	receive(t, s, "orders", 10)
	hasFault(t, s, "cut or made again")
	send(t, s, "orders", 10, 5)
	receive(t, s, "orders", 5)
}

// TestCommittedForAnotherIncarnation: what was committed for a topic that was
// deleted says nothing about the one that has its name.
func TestCommittedForAnotherIncarnation(t *testing.T) {
	t.Parallel()
	broker := fakeCluster(t, 1).ListenAddrs()
	s := open(t, brisk(broker))
	send(t, s, "orders", 0, 10)
	commit(t, broker, "pawl", "orders", 5, gate.New(5).Checkpoint(gate.Extra{Source: 4711}).Text())
	receive(t, s, "orders", 10)
	hasFault(t, s, "metadata of the commit")
}

// TestForeignMetadata: the offset counts, the text beside it does not.
func TestForeignMetadata(t *testing.T) {
	t.Parallel()
	broker := fakeCluster(t, 1).ListenAddrs()
	s := open(t, brisk(broker))
	send(t, s, "orders", 0, 10)
	commit(t, broker, "pawl", "orders", 5, "bKAAAAAAB") // as another consumer writes it
	if seen := receive(t, s, "orders", 5); seen["m0"] != 0 || seen["m5"] != 1 {
		t.Errorf("came: %v, want m5 to m9", seen)
	}
	hasFault(t, s, "metadata of the commit")
}
