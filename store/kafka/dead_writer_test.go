package kafka_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestADeadLetterThatIsRefusedHoldsUpNoOther: while the letters of one topic cannot be
// written those of another are, at once, and their keys go on. When they can be, so
// are the others.
func TestADeadLetterThatIsRefusedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	config.Produce.Timeout, config.Produce.Retries = time.Hour, 1<<20 // so that nothing is given up
	s := open(t, config)
	refused := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "parcels.dead",
		Err: kerr.NotEnoughReplicas, Count: -1})
	var batch store.Batch[pawl.Message]
	for _, topic := range []string{"parcels", "orders", "orders"} {
		batch.Items = append(batch.Items, pawl.Message{Topic: topic, Key: []byte("key")})
	}
	if _, err := s.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"parcels", "orders", "orders"} {
		eventually(t, "the next of "+topic+" comes, and dies", func() bool { return len(kill(t, s, topic)) > 0 })
	}
	listed := func(topic string) (n int) {
		for _, err := range s.Dead(t.Context(), store.DeadFilter{Topic: topic}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	eventually(t, "the letters of orders are there", func() bool { return listed("orders") == 2 })
	if n := listed("parcels"); n != 0 || refused.Hits() == 0 {
		t.Errorf("%d letters of parcels are there, and %d were refused", n, refused.Hits())
	}
	refused.Remove()
	eventually(t, "the letter of parcels is there", func() bool { return listed("parcels") == 1 })
}

// TestADeadLetterOnItsWayIsNotWrittenAgain: a broker that does not answer may have the
// letter. It is a fault, and no reason to write it twice.
func TestADeadLetterOnItsWayIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	config.Produce.Timeout = time.Second
	s := open(t, config)
	admin := adminOf(t, cluster.ListenAddrs())
	create(t, admin, "orders.dead", 1)
	send(t, s, "orders", 0, 1)
	topics, err := admin.ListTopics(t.Context(), "orders.dead")
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if slices.ContainsFunc(r.(*kmsg.ProduceRequest).Topics, func(rt kmsg.ProduceRequestTopic) bool {
			return rt.Topic == "orders.dead" || rt.TopicID == topics["orders.dead"].ID
		}) {
			cluster.SleepControl(func() { <-answer })
		}
		return nil, nil, false
	})
	eventually(t, "one dies", func() bool { return len(kill(t, s, "orders")) > 0 })
	eventually(t, "it is a fault, and goes on being one", func() bool {
		for _, f := range s.Faults() {
			if f.About == "orders" && f.Count >= 2 {
				return true
			}
		}
		return false
	})
	release()
	eventually(t, "the letter is there, and its message is finished", func() bool {
		f := s.Figures()
		return len(letters(t, s)) == 1 && f.Topics[0].Dying == 0 && f.Produced.Buffered == 0
	})
	ends, err := admin.ListEndOffsets(t.Context(), "orders.dead")
	if o, _ := ends.Lookup("orders.dead", 0); err != nil || o.Offset != 1 {
		t.Errorf("%d letters were written, want 1: %v", o.Offset, err)
	}
}
