package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// fakeCluster is a broker within the process.
func fakeCluster(t testing.TB, brokers int) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SleepOutOfOrder(),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0",
			"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// brisk is a configuration whose waits are short.
func brisk(brokers []string) kafka.Config {
	return kafka.Config{
		Brokers: brokers,
		Create:  kafka.Creation{Partitions: 1, Replicas: 1},
		Produce: kafka.Producing{Linger: -1, Timeout: 5 * time.Second, Compression: unpacked.Compression},
		Consume: kafka.Consuming{FetchMin: 1, FetchWait: 50 * time.Millisecond, Commit: 50 * time.Millisecond,
			Heartbeat: 100 * time.Millisecond, Drain: time.Second},
	}
}

func open(t testing.TB, c kafka.Config) *kafka.Store {
	t.Helper()
	s, err := kafka.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// send appends messages m0, m1, … of a key each.
func send(t testing.TB, s *kafka.Store, topic string, from, n int) {
	t.Helper()
	var batch store.Batch[pawl.Message]
	for i := range n {
		name := fmt.Sprintf("m%d", from+i)
		batch.Items = append(batch.Items, pawl.Message{Topic: topic, ID: name, Key: []byte(name), Body: []byte(name)})
	}
	rs, err := s.Append(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// receive claims and acks until it has had that many messages, and returns how
// often each came.
func receive(t testing.TB, s *kafka.Store, topic string, n int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second) // new partitions are noticed within 30
	defer cancel()
	for len(seen) < n {
		ds, err := s.Claim(ctx, []store.Want{{Topic: topic, Limit: 100}}, store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			if ctx.Err() != nil {
				t.Fatalf("%d of %d messages came; faults: %v", len(seen), n, s.Faults())
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for _, d := range ds {
			seen[d.ID]++
			if refused, err := s.Settle(ctx, store.Batch[store.Settlement]{Items: []store.Settlement{{Token: d.Token,
				ID: d.ID, Verdict: store.Ack}}}); err != nil || len(refused) > 0 {
				t.Errorf("ack %s: %v %v", d.ID, refused, err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	return seen
}

// hasFault waits until the store tells of a fault that has these words.
func hasFault(t testing.TB, s *kafka.Store, words string) {
	t.Helper()
	for range 1000 {
		for _, f := range s.Faults() {
			if strings.Contains(f.What, words) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("no fault says %q: %v", words, s.Faults())
}

// commit is what another program commits for the group.
func commit(t testing.TB, brokers []string, group, topic string, offset int64, metadata string) {
	t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := adminOf(t, brokers).CommitAllOffsets(t.Context(), group, os); err != nil {
		t.Fatal(err)
	}
}

// adminOf asks brokers, past the store.
func adminOf(t testing.TB, brokers []string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}
