package kafka_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
)

// TestABrokerThatHasNotHeardOfATopic: a broker that does not know a topic yet is no
// reason to take it for another incarnation. What is committed then would count for
// nothing later.
func TestABrokerThatHasNotHeardOfATopic(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	var assigned atomic.Bool
	cluster.ControlKey(kmsg.OffsetFetch.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { time.Sleep(500 * time.Millisecond) }) // for longer than the client remembers topics
		assigned.Store(true)
		return nil, nil, false
	})
	late := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Err: kerr.UnknownTopicOrPartition, Count: 5,
		When: func(kmsg.Request) bool { return assigned.Load() },
	})
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "orders", 0, 10)
	var acks store.Batch[store.Settlement]
	for begun := 0; begun < 10; {
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 10}}, store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range ds {
			if begun++; ds[i].ID != "m5" {
				acks.Items = append(acks.Items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
			}
		}
		time.Sleep(time.Millisecond)
	}
	if refused, err := s.Settle(t.Context(), acks); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if late.Hits() == 0 {
		t.Fatal("no broker was asked for the topic after its assignment")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, brisk(cluster.ListenAddrs()))
	send(t, other, "orders", 10, 1)
	if seen := receive(t, other, "orders", 2); len(seen) != 2 || seen["m5"] != 1 || seen["m10"] != 1 {
		t.Errorf("came: %v, want m5 and m10, which alone are not finished", seen)
	}
}
