package spill

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// instant is a primary store that costs next to nothing.
type instant struct {
	store.Store
	receipts []store.Receipt
}

func (p *instant) Append(_ context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return p.receipts[:len(batch.Items)], nil
}

// BenchmarkHealthy is what an Append costs beside that of the primary store while
// all is well: by messages of a call, with and without keys.
func BenchmarkHealthy(b *testing.B) {
	for _, c := range []struct {
		size  int
		keyed bool
	}{{1, false}, {1, true}, {100, false}, {100, true}} {
		primary := &instant{Store: memory.New(memory.Config{}), receipts: make([]store.Receipt, c.size)}
		s := open(b, primary, memory.New(memory.Config{}), Config{})
		<-s.loaded
		batch := store.NewBatch[pawl.Message]()
		for n := range c.size {
			m := pawl.Message{ID: fmt.Sprint(n), Topic: "orders", Body: []byte("body")}
			if c.keyed {
				m.Key = fmt.Append(nil, "key", n)
			}
			batch.Items = append(batch.Items, m)
		}
		b.Run(fmt.Sprintf("spill/%d/keyed=%t", c.size, c.keyed), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Append(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("checks alone/%d/keyed=%t", c.size, c.keyed), func(b *testing.B) {
			for b.Loop() { // what every store does
				if _, err := backend.Admit(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHealthyAsksNobody: while all is well the fallback store is not called.
func TestHealthyAsksNobody(t *testing.T) {
	calls := &counted{Store: memory.New(memory.Config{})}
	s := open(t, newLog(), calls, Config{})
	for n := range 1000 {
		send(t, s, msg("a", n), msg("", n))
	}
	if calls.appends != 0 || calls.claims != 0 {
		t.Fatalf("%d appends and %d claims", calls.appends, calls.claims)
	}
}

type counted struct {
	store.Store
	appends, claims int
}

func (c *counted) Unwrap() store.Store { return c.Store }

func (c *counted) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	c.appends++
	return c.Store.Append(ctx, batch)
}

func (c *counted) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	c.claims++
	return c.Store.Claim(ctx, wants, lease)
}

// BenchmarkBesideRows is what an Append of one key costs while another process has
// 100,000 rows of 1,000 keys in the fallback store: it is asked about the key.
func BenchmarkBesideRows(b *testing.B) {
	fallback, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "fallback.db")})
	if err != nil {
		b.Fatal(err)
	}
	primary := &instant{Store: memory.New(memory.Config{}), receipts: make([]store.Receipt, 1)}
	s := open(b, primary, fallback, Config{})
	<-s.loaded
	for from := 0; from < 100_000; from += 10_000 {
		var batch store.Batch[pawl.Message]
		for n := range 10_000 {
			batch.Items = append(batch.Items, pawl.Message{
				Topic: topicOf("orders"), Key: fmt.Append(nil, "key", n%1000), Body: []byte("body"),
			})
		}
		if _, err := fallback.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := fallback.Pause(b.Context(), topicOf("orders"), 0, "test",
		"so that the rows stay"); err != nil {
		b.Fatal(err)
	}
	m := pawl.Message{Topic: "orders", Key: []byte("free"), Body: []byte("body")}
	for b.Loop() {
		if _, err := s.Append(b.Context(), store.NewBatch(m)); err != nil {
			b.Fatal(err)
		}
	}
	if s.blind > 0 {
		b.Errorf("%d times nobody could be asked", s.blind)
	}
}
