package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// onBrokers runs a test over a broker within the process, and over a real one. The
// configuration has topics and a group that nobody else has.
func onBrokers(t *testing.T, do func(t *testing.T, config kafka.Config, admin *kadm.Client)) {
	t.Parallel()
	on := func(t *testing.T, broker []string) {
		config := brisk(broker)
		config.Prefix, config.Group = fresh("broken")+".", fresh("g")
		client, err := kgo.NewClient(kgo.SeedBrokers(broker...), kgo.MetadataMinAge(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		do(t, config, kadm.NewClient(client))
	}
	t.Run("fake", func(t *testing.T) { t.Parallel(); on(t, fakeCluster(t, 1).ListenAddrs()) })
	t.Run("real", func(t *testing.T) { t.Parallel(); on(t, []string{realBroker(t)}) })
}

// TestNoTopicForDeadLetters: the lane of a dead letter that cannot be written stands
// still, others go on, nothing is committed past it; when the topic is there it is
// written without anybody's help.
func TestNoTopicForDeadLetters(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		config.Create.Off = true
		wire := config.Prefix + "orders"
		create(t, admin, wire, 1)
		s := open(t, config)
		send(t, s, "orders", 0, 10)
		var dead []pawl.Delivery
		for len(dead) == 0 {
			dead = kill(t, s, "orders")
		}
		receive(t, s, "orders", 9)
		hasFault(t, s, "topics are not created here")
		time.Sleep(3 * config.Consume.Commit)
		if os, err := admin.FetchOffsets(t.Context(), config.Group); err != nil {
			t.Error(err)
		} else if o, ok := os.Lookup(wire, 0); ok && o.At != 0 {
			t.Errorf("%d is committed although %s is nowhere", o.At, dead[0].ID)
		}
		create(t, admin, wire+".dead", 1)
		for range 2000 {
			if len(letters(t, s)) == 1 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("dead letters: %v, want %s", letters(t, s), dead[0].ID)
	})
}

func create(t testing.TB, admin *kadm.Client, wire string, partitions int32) {
	t.Helper()
	for range 100 { // one that was just deleted may be there for a moment
		resp, err := admin.CreateTopics(t.Context(), partitions, 1, nil, wire)
		if err == nil && resp[wire].Err == nil {
			await(t, admin, wire)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("topic %s cannot be made", wire)
}

func letters(t testing.TB, s *kafka.Store) (ids []string) {
	t.Helper()
	for r, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

// TestTopicMadeAgain: a topic that is deleted and made again is consumed and
// written to again by processes that go on; what is in the new one is all carried
// out, and nothing that was committed for the old one counts.
func TestTopicMadeAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		s, other := open(t, config), open(t, config)
		send(t, s, "orders", 0, 20)
		receive(t, s, "orders", 20)
		if _, err := admin.DeleteTopics(t.Context(), wire); err != nil {
			t.Fatal(err)
		}
		create(t, admin, wire, 1)
		send(t, other, "orders", 100, 10) // which knows the new one only
		seen := receive(t, s, "orders", 10)
		for i := range 10 {
			if seen[fmt.Sprintf("m%d", 100+i)] == 0 {
				t.Errorf("came: %v, want m100 to m109", seen)
				break
			}
		}
		hasFault(t, s, "cannot fetch")
		sendAgain(t, s, "orders", 200)
		receive(t, s, "orders", 1)
	})
}

// sendAgain appends one message, and again while the brokers say that it was not
// stored.
func sendAgain(t testing.TB, s *kafka.Store, topic string, n int) {
	t.Helper()
	name := fmt.Sprintf("m%d", n)
	var err error
	for range 20 {
		_, err = s.Append(t.Context(), store.Batch[pawl.Message]{Items: []pawl.Message{{Topic: topic, ID: name,
			Key: []byte(name), Body: []byte(name)}}})
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestMorePartitions: those that come are consumed from their start.
func TestMorePartitions(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		s := open(t, config)
		send(t, s, "orders", 0, 20)
		receive(t, s, "orders", 20)
		if _, err := admin.UpdatePartitions(t.Context(), 4, config.Prefix+"orders"); err != nil {
			t.Fatal(err)
		}
		late := open(t, config) // knows of them at once
		send(t, late, "orders", 20, 40)
		receive(t, s, "orders", 40)
	})
}

// TestMetadataTooLarge: the offset is committed without it, and there is a fault
// for as long as that is so.
func TestMetadataTooLarge(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.OffsetMetadataTooLarge, Count: -1,
		When: func(r kmsg.Request) bool {
			for _, rt := range r.(*kmsg.OffsetCommitRequest).Topics {
				for _, rp := range rt.Partitions {
					if rp.Metadata != nil && len(*rp.Metadata) > 4 {
						return true
					}
				}
			}
			return false
		}})
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "orders", 0, 20)
	receive(t, s, "orders", 20)
	hasFault(t, s, "offset.metadata.max.bytes")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	os, err := adminOf(t, cluster.ListenAddrs()).FetchOffsets(t.Context(), "pawl")
	if o, ok := os.Lookup("orders", 0); err != nil || !ok || o.At != 20 || o.Metadata != "" {
		t.Errorf("committed: %+v, %v; want 20 without metadata", o, err)
	}
}

// await waits until the broker lists a topic, some time after its controller made it.
func await(t testing.TB, admin *kadm.Client, wire string) {
	t.Helper()
	for range 200 {
		if listed, err := admin.ListTopics(t.Context(), wire); err == nil && listed[wire].Err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("topic %s was made, and is not listed", wire)
}
