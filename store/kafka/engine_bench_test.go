package kafka

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// BenchmarkEngine is the way of a message through the engine: taken in, claimed,
// copied for its handler, acked, with a checkpoint now and then. Brokers and the
// client are left out. An operation is one message. With depth, so many fetches of
// each partition wait in hand, as they do behind a fast broker: what is claimed has
// left the processor's caches long ago.
func BenchmarkEngine(b *testing.B) {
	for _, keys := range []int{0, 100, 10_000} {
		for _, size := range []int{100, 2000} {
			b.Run(fmt.Sprintf("keys=%d/claim=%d", keys, size), func(b *testing.B) { benchEngine(b, keys, size, 0) })
		}
		b.Run(fmt.Sprintf("keys=%d/claim=2000/depth=3", keys), func(b *testing.B) { benchEngine(b, keys, 2000, 3) })
	}
}

func benchEngine(b *testing.B, keys, size, depth int) {
	const partitions, fetched = 12, 4000
	c, err := Config{Brokers: []string{"127.0.0.1:1"}}.Complete()
	if err != nil {
		b.Fatal(err)
	}
	e := newEngine(time.Now, c.Consume)
	var as [partitions]*assignment
	for p := range as {
		as[p] = (&ownership{e}).assign("bench", int32(p), 1, -1, gate.Checkpoint{})
	}
	source := newSource(partitions, fetched, keys)
	wants, lease := []store.Want{{Topic: "bench", Limit: size}}, &store.Lease{For: time.Minute, Owner: "bench"}
	var left [partitions][]*kgo.Record // fetched, but not taken in yet
	fetch := func(p int) {
		if len(left[p]) == 0 {
			left[p] = source.fetch(p)
		}
	}
	for i := range depth * partitions {
		p := i % partitions
		fetch(p)
		left[p] = left[p][e.take(as[p], left[p]):]
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done, fetches := 0, 0; done < b.N; fetches++ {
		p := fetches % partitions
		b.StopTimer()
		fetch(p)
		b.StartTimer()
		left[p] = left[p][e.take(as[p], left[p]):]
		for due := done + fetched; depth == 0 || done < due; {
			c, err := e.claim(wants, lease)
			if err != nil {
				b.Fatal(err)
			}
			ds := c.deliveries()
			if len(ds) == 0 {
				break
			}
			acks := make([]store.Settlement, len(ds))
			for i := range ds {
				acks[i] = store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
			}
			if lost, _, err := e.settle(acks, nil); err != nil || len(lost) > 0 {
				b.Fatalf("settle: %d lost, %v", len(lost), err)
			}
			done += len(ds)
		}
		e.mu.Lock()
		(&ownership{e}).checkpoint(as[p])
		e.mu.Unlock()
	}
}

// source makes fetches.
type source struct {
	next  []int64
	count int
	keys  [][]byte
	rng   *rand.Rand
}

func newSource(partitions, count, keys int) *source {
	s := &source{next: make([]int64, partitions), count: count, rng: rand.New(rand.NewPCG(1, 1))}
	for k := range keys {
		s.keys = append(s.keys, fmt.Appendf(nil, "key-%07d", k))
	}
	return s
}

func (s *source) fetch(p int) []*kgo.Record {
	now, slab, raw := time.Now(), make([]kgo.Record, s.count), make([]byte, 256*s.count)
	records := make([]*kgo.Record, s.count)
	for i := range records {
		r := &slab[i]
		r.Topic, r.Partition, r.Offset, r.Timestamp, r.Value = "bench", int32(p), s.next[p], now, raw[256*i:256*(i+1)]
		binary.BigEndian.PutUint64(r.Value, uint64(i))
		if len(s.keys) > 0 {
			k := s.rng.IntN(len(s.keys)) / len(s.next) * len(s.next) // a key has its partition
			r.Key = s.keys[min(k+p, len(s.keys)-1)]
		}
		s.next[p]++
		records[i] = r
	}
	return records
}
