package codec_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
)

// BenchmarkBody appends, claims and acks batches of 100 JSON bodies over memory,
// which costs next to nothing. stored/op is bytes of a message in the store below.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{200, 2 << 10, 64 << 10} {
		for _, c := range []struct {
			name   string
			config codec.Config
		}{
			{"bare", codec.Config{}}, {"none", codec.Config{}},
			{"zstd", codec.Config{Compress: true, Min: 1}},
		} {
			b.Run(fmt.Sprintf("%d/%s", size, c.name), func(b *testing.B) {
				inner := memory.New(memory.Config{})
				var s store.Store = inner
				if c.name != "bare" {
					wrapped, err := codec.New(inner, c.config)
					if err != nil {
						b.Fatal(err)
					}
					s = wrapped
				}
				benchBody(b, s, inner, size)
			})
		}
	}
}

func benchBody(b *testing.B, s, inner store.Store, size int) {
	const batch = 100
	var items []pawl.Message
	for i := range batch {
		m := msg(bytes.Replace(order(size), []byte("48113"), fmt.Append(nil, 10000+i), 1))
		items = append(items, m)
	}
	stored := 0
	b.SetBytes(int64(len(items[0].Body)))
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		if _, err := s.Append(b.Context(), store.Batch[pawl.Message]{Items: items}); err != nil {
			b.Fatal(err)
		}
		if stored == 0 {
			inspector, _ := store.As[store.Inspector](inner, store.CanLookup)
			for r := range inspector.List(b.Context(), store.Filter{Limit: 1}) {
				stored = r.Size()
			}
		}
		ds, err := s.Claim(b.Context(), []store.Want{{Topic: topic, Limit: batch}}, store.Lease{For: time.Minute})
		if err != nil || len(ds) != batch {
			b.Fatal(len(ds), err)
		}
		acks := make([]store.Settlement, batch)
		for i, d := range ds {
			acks[i] = store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
		}
		if _, err := s.Settle(b.Context(), store.Batch[store.Settlement]{Items: acks}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(stored), "stored/op")
}
