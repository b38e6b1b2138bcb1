package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// broken is a store whose appends can be slowed down or made to fail.
type broken struct {
	store.Store
	down  atomic.Bool
	slow  atomic.Int64 // nanoseconds
	mu    sync.Mutex
	calls int
}

var errDown = errors.New("no route to host")

func (b *broken) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	b.mu.Lock()
	b.calls++
	b.mu.Unlock()
	if d := b.slow.Load(); d > 0 {
		select {
		case <-time.After(time.Duration(d)):
		case <-ctx.Done():
			return nil, &store.Error{Op: "append", Err: ctx.Err()}
		}
	}
	if b.down.Load() {
		return nil, &store.Error{Op: "append", Code: store.ErrUnavailable, Err: errDown}
	}
	return b.Store.Append(ctx, batch)
}

func (b *broken) Unwrap() store.Store { return b.Store }

// pair is two memory stores with a mirror over them.
type pair struct {
	old, new *memory.Store
	target   *broken
	plans    *mirror.Plans
	*mirror.Store
}

func newPair(t *testing.T, c mirror.Config) *pair {
	t.Helper()
	p := &pair{old: memory.New(memory.Config{}), new: memory.New(memory.Config{})}
	p.target = &broken{Store: p.new}
	var err error
	if p.Store, err = mirror.New(p.old, p.target, c); err != nil {
		t.Fatal(err)
	}
	if p.plans, err = mirror.OpenPlans(p.old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// stage puts a topic into a stage, and lets every process learn of it.
func (p *pair) stage(t *testing.T, topic string, change func(*mirror.Plan)) {
	t.Helper()
	plan, err := p.plans.Get(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	change(plan)
	if err := p.plans.Put(t.Context(), plan, "test"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(mirror.Fresh)
}

func to(stage mirror.Stage) func(*mirror.Plan) { return func(p *mirror.Plan) { p.Stage = stage } }

func appendAll(t *testing.T, s store.Store, ms ...pawl.Message) []store.Receipt {
	t.Helper()
	receipts, err := s.Append(t.Context(), store.NewBatch(ms...))
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func flush(t *testing.T, s *mirror.Store) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// listed are the ids of a topic that are not done, by key.
func listed(t *testing.T, s store.Store, topic string) map[string][]string {
	t.Helper()
	look, ok := store.As[store.Inspector](s)
	if !ok {
		t.Fatal("no Looker")
	}
	ids := map[string][]string{}
	for r, err := range look.List(t.Context(), store.Filter{Topic: topic}) {
		if err != nil {
			t.Fatal(err)
		}
		ids[string(r.Key)] = append(ids[string(r.Key)], r.ID)
	}
	return ids
}

func count(ids map[string][]string) (n int) {
	for _, of := range ids {
		n += len(of)
	}
	return n
}

func mail(key string, n int) pawl.Message {
	return pawl.Message{ID: fmt.Sprintf("%s-%04d", key, n), Topic: "mail", Key: []byte(key),
		Body: fmt.Appendf(nil, "letter %d", n)}
}

func claim(t *testing.T, s store.Store, topic string, n int) []pawl.Delivery {
	t.Helper()
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: n}},
		store.Lease{For: time.Minute, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func ack(t *testing.T, s store.Store, ds []pawl.Delivery, emit ...pawl.Message) {
	t.Helper()
	var items []store.Settlement
	for i := range ds {
		items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack, Emit: emit})
	}
	refused, err := s.Settle(t.Context(), store.NewBatch(items...))
	if err != nil || len(refused) > 0 {
		t.Fatalf("settle: %v, refused %v", err, refused)
	}
}

func ids(ds []pawl.Delivery) (out []string) {
	for i := range ds {
		out = append(out, ds[i].ID)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
