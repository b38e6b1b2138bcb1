package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// serial lets calls of Settle in one at a time.
type serial struct {
	*feed
	mu sync.Mutex
}

func (s *serial) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feed.Claim(ctx, wants, lease)
}

func (s *serial) Settle(ctx context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feed.Settle(ctx, b)
}

// feed is a store that has b.N messages and forgets what was settled: what is
// measured is the dispatcher.
type feed struct {
	store.Store
	left, done int
	seq        int64
	claims     int
	settles    int
	full       chan struct{}
}

func (f *feed) Claim(_ context.Context, wants []store.Want, _ store.Lease) ([]pawl.Delivery, error) {
	n := min(wants[0].Limit, f.left)
	f.left -= n
	f.claims++
	ds := make([]pawl.Delivery, n)
	now := time.Now()
	for i := range ds {
		f.seq++
		ds[i] = pawl.Delivery{
			Message: pawl.Message{ID: "0199c5a0-0000-7000-8000-000000000000", Topic: "a", Body: body},
			Token:   pawl.Token{Fence: 1, Lane: f.seq, Seq: f.seq}, Attempt: 1, EnqueuedAt: now,
			LeaseFor: time.Minute, Deadline: time.Hour,
		}
	}
	return ds, nil
}

func (f *feed) Settle(_ context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	f.settles++
	if f.done -= len(b.Items); f.done == 0 {
		close(f.full)
	}
	return nil, nil
}

func (f *feed) Extend(context.Context, time.Duration, ...pawl.Token) ([]pawl.Token, error) {
	return nil, nil
}

var body = make([]byte, 84)

// BenchmarkDispatcher is what a message costs beside the store, for handlers
// that do nothing.
func BenchmarkDispatcher(b *testing.B) {
	for _, concurrency := range []int{1, 32, 500} {
		b.Run(fmt.Sprint(concurrency), func(b *testing.B) {
			b.ReportAllocs()
			f := &feed{left: b.N, done: b.N, full: make(chan struct{})}
			d, err := dispatch.New(&serial{feed: f}, dispatch.Config{
				Topics: []dispatch.Topic{{Name: "a", Concurrency: concurrency, Handler: pawl.HandlerFunc(
					func(context.Context, *pawl.Delivery) error { return nil })}},
				Logger: quiet,
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error)
			b.ResetTimer()
			go func() { done <- d.Run(ctx) }()
			<-f.full
			b.StopTimer()
			stop()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/float64(max(f.claims, 1)), "msg/claim")
			b.ReportMetric(float64(b.N)/float64(max(f.settles, 1)), "msg/settle")
		})
	}
}
