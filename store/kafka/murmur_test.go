package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// murmurs are the vectors of the test of Kafka's own Utils.murmur2.
var murmurs = map[string]int32{
	"21":                         -973932308,
	"foobar":                     -790332482,
	"a-little-bit-long-string":   -985981536,
	"a-little-bit-longer-string": -1486304829,
	"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
	"abc": 479470107,
}

// TestKeysAreWhereJavaPutsThem: a key's messages go to the partition in which the
// Java client would put them, whatever else is in the batch.
func TestKeysAreWhereJavaPutsThem(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	for _, partitions := range []int32{3, 4, 12, 100} {
		topic := fmt.Sprintf("of%d", partitions)
		config := brisk(cluster.ListenAddrs())
		config.Create.Partitions = partitions
		s := open(t, config)
		var batch store.Batch[pawl.Message]
		for range 3 {
			for key := range murmurs {
				batch.Items = append(batch.Items, pawl.Message{Topic: topic, Key: []byte(key)},
					pawl.Message{Topic: topic})
			}
		}
		if _, err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		where := map[string]map[int32]int{}
		for _, r := range all(t, cluster.ListenAddrs(), topic, len(batch.Items)) {
			if r.Key == nil {
				continue
			}
			if where[string(r.Key)] == nil {
				where[string(r.Key)] = map[int32]int{}
			}
			where[string(r.Key)][r.Partition]++
		}
		for key, hash := range murmurs {
			if want := (hash & 0x7fffffff) % partitions; where[key][want] != 3 {
				t.Errorf("of %d partitions, messages of key %q are in these: %v; Java puts all 3 into %d", partitions,
					key, where[key], want)
			}
		}
	}
}

// all reads a topic from its start, until it has had that many records.
func all(t testing.TB, brokers []string, topic string, n int) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for len(records) < n {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}
