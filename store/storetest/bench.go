package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Bench measures a backend: messages a second of appending and of claim with
// settle, and marks a second.
func Bench(b *testing.B, h Harness) {
	b.Run("append/500", func(b *testing.B) { benchAppend(b, h, 500) })
	b.Run("append/1", func(b *testing.B) { benchAppend(b, h, 1) })
	b.Run("work/unordered", func(b *testing.B) { benchWork(b, h, 0) })
	b.Run("work/keys=1000", func(b *testing.B) { benchWork(b, h, 1000) })
	b.Run("work/keys=1", func(b *testing.B) { benchWork(b, h, 1) })
	b.Run("marks/500", func(b *testing.B) { benchMarks(b, h, 500) })
}

// benchMarks writes marks of new keys, as a visited set does.
func benchMarks(b *testing.B, h Harness, size int) {
	s, ok := store.As[store.Shared](h.Open(b).Store, store.CanMarks)
	if !ok {
		b.Skip("the store has no marks")
	}
	ctx := context.Background()
	marks, n := make([]pawl.Mark, size), 0
	for b.Loop() {
		for i := range marks {
			n++
			marks[i] = pawl.Mark{Scope: "bench", Key: fmt.Sprintf("https://www.example.com/a/page/of/a/site/%d", n)}
		}
		receipts, err := s.PutMarks(ctx, marks...)
		if err != nil || len(receipts) != size || !receipts[0].Put {
			b.Fatalf("put marks: %d receipts, %v", len(receipts), err)
		}
	}
	rate(b, n)
}

func benchAppend(b *testing.B, h Harness, size int) {
	s := h.Open(b).Store
	for b.Loop() {
		fill(b, s, size, 0)
	}
	rate(b, b.N*size)
}

// benchWork claims and settles in batches of 500; an iteration is 500 messages.
func benchWork(b *testing.B, h Harness, keys int) {
	const size = 500
	s := h.Open(b).Store
	ctx := context.Background()
	done := 0
	for b.Loop() {
		b.StopTimer()
		fill(b, s, size, keys)
		b.StartTimer()
		for left := size; left > 0; {
			ds, err := s.Claim(ctx, []store.Want{{Topic: "bench", Limit: left}}, store.Lease{For: time.Minute})
			if err != nil || len(ds) == 0 {
				b.Fatalf("claimed %d of %d: %v", len(ds), left, err)
			}
			if refused, err := s.Settle(ctx, store.NewBatch(verdicts(store.Ack, ds)...)); err != nil || len(refused) > 0 {
				b.Fatalf("settle: %v, %v", refused, err)
			}
			left -= len(ds)
			done += len(ds)
		}
	}
	rate(b, done)
}

// fill appends n messages of 84 bytes; keys is how many lanes, 0 for none.
func fill(b *testing.B, s store.Store, n, keys int) {
	msgs := make([]pawl.Message, n)
	body := make([]byte, 84)
	names := numbered("key", keys)
	for i := range msgs {
		msgs[i] = pawl.Message{Topic: "bench", Body: body}
		if keys > 0 {
			msgs[i].Key = []byte(names[i%keys])
		}
	}
	if _, err := s.Append(context.Background(), store.NewBatch(msgs...)); err != nil {
		b.Fatal(err)
	}
}

func rate(b *testing.B, messages int) {
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msgs/s")
}
