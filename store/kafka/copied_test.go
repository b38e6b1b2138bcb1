package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// A record that somebody copied out of a topic of dead letters has headers that mean
// something there. When it dies it is a dead letter like any other, and its headers
// are still there.
func TestCopiedLettersDieOnceMore(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "orders", 0, 1)
	first := die(t, s, "orders")
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte("copied"), Headers: []kgo.RecordHeader{
		{Key: "before", Value: []byte("1")}, {Key: "pawl-dead", Value: []byte(`{"v":1,"id":"other"}`)},
		{Key: "pawl-gone", Value: []byte(`{"id":"m0","offset":0}`)}, {Key: "behind", Value: []byte("2")},
	}}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	second := die(t, s, "orders")
	for _, who := range []*kafka.Store{s, open(t, brisk(cluster.ListenAddrs()))} {
		var letters []store.Record
		for r, err := range who.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, r)
		}
		if len(letters) != 2 || letters[0].ID != first || letters[1].ID != second {
			t.Fatalf("%+v", letters)
		}
		h := letters[1].Headers
		if h["before"] != "1" || h["behind"] != "2" || h["pawl-gone"] != `{"id":"m0","offset":0}` ||
			h["pawl-dead"] != `{"v":1,"id":"other"}` {
			t.Errorf("headers %v", h)
		}
	}
	if refused, err := s.Replay(t.Context(), "", second); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if seen := receive(t, s, "orders", 1); seen[second] != 1 {
		t.Errorf("%v", seen)
	}
}
