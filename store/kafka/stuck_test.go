package kafka_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestAStuckPartitionHoldsUpNoOther: a partition of which nothing is settled, and
// that has no room, is not fetched from after a while; another one goes on. When
// something is settled, so does the first.
func TestAStuckPartitionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const count, each, unknown, none = 5, 200, -1, -2
	config := brisk(fakeCluster(t, 1).ListenAddrs())
	config.Create.Partitions = 2
	config.Consume.Count, config.Consume.FetchBytes = count, 64<<10
	s := open(t, config)
	var batch store.Batch[pawl.Message]
	for i := range 2 * each {
		key := fmt.Appendf(nil, "%d", i)
		batch.Items = append(batch.Items, pawl.Message{Topic: "orders", Key: key,
			Body: bytes.Repeat([]byte("."), 1<<10)})
	}
	if _, err := s.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	stuck, partition := map[pawl.Token]bool{}, int64(unknown)
	others, ended := 0, time.Now().Add(30*time.Second)
	finish := func(tok pawl.Token) {
		if refused, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: tok, ID: "any",
			Verdict: store.Ack})); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	work := func(until func() bool) {
		t.Helper()
		for !until() {
			if time.Now().After(ended) {
				t.Fatalf("%d of the stuck partition, %d of the other one came; %d paused", len(stuck), others,
					s.Paused())
			}
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 100}},
				store.Lease{For: time.Minute, Owner: "test"})
			if err != nil {
				t.Fatal(err)
			}
			for i := range ds {
				if of := ds[i].Token.Lane >> 32; partition == unknown || of == partition {
					partition = of
					stuck[ds[i].Token] = true
				} else {
					others++
					finish(ds[i].Token)
				}
			}
			time.Sleep(time.Millisecond)
		}
	}
	work(func() bool { return others > each/2 && s.Paused() == 1 }) // about half of the keys are in each
	if len(stuck) != count {
		t.Errorf("%d of the stuck partition are in hand, want %d", len(stuck), count)
	}
	for tok := range stuck {
		finish(tok)
	}
	partition, others = none, others+len(stuck)
	work(func() bool { return others == 2*each })
}
