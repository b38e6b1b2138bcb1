package kafka_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// When a broker refuses some messages of a call, the receipts tell which; they are
// surely not stored, and the others are.
func TestAppendTellsWhatFailed(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 2)
	s := open(t, brisk(cluster.ListenAddrs()))
	for node, topic := range []string{"a", "b"} {
		send(t, s, topic, 0, 1)
		if err := cluster.MoveTopicPartition(topic, 0, int32(node)); err != nil {
			t.Fatal(err)
		}
	}
	send(t, s, "a", 1, 1) // so that the client knows where they are
	send(t, s, "b", 1, 1)
	cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if cluster.CurrentNode() != 1 {
			return nil, nil, false
		}
		return refusal(r.(*kmsg.ProduceRequest)), nil, true
	})
	rs, err := s.Append(t.Context(), store.NewBatch(
		pawl.Message{Topic: "a", Body: []byte("x")}, pawl.Message{Topic: "b", Body: []byte("y")}, pawl.Message{Topic: "a", Body: []byte("z")}))
	if err == nil || len(rs) != 3 {
		t.Fatalf("%v, %v", rs, err)
	}
	if rs[0].Err != nil || rs[2].Err != nil || !errors.Is(rs[1].Err, store.ErrUnavailable) || errors.Is(rs[1].Err, store.ErrUnknown) {
		t.Fatalf("receipts %+v", rs)
	}
	for topic, want := range map[string]int64{"a": 4, "b": 2} {
		if stats, err := s.Stats(t.Context(), topic); err != nil || stats[0].Appended != want {
			t.Errorf("topic %s has %+v; want %d: %v", topic, stats, want, err)
		}
	}
}

// When a broker does not answer in time, it is unknown whether a message is stored.
func TestAppendTellsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 1)
	release := make(chan struct{})
	defer close(release)
	cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	rs, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "a"}))
	if err == nil || len(rs) != 1 || !errors.Is(rs[0].Err, store.ErrUnknown) {
		t.Fatalf("%+v, %v", rs, err)
	}
}
