package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// Topic is the topic of benchmarks. What is left in it is removed.
const Topic = "pawl-bench"

// Config says what a benchmark does.
type Config struct {
	Count, Size, Keys, Batch, Concurrency, Producers int
	PerSecond                                        float64 // of appends; 0: as fast as it goes
}

// Arm is what was measured, as JSON.
type Arm struct {
	Arm            string   `json:"arm"` // append, work or both
	Count          int      `json:"count"`
	Size           int      `json:"size"`
	Keys           int      `json:"keys"`
	Batch          int      `json:"batch"`
	Concurrency    int      `json:"concurrency"`
	PerSecond      float64  `json:"per_second"`
	P50Ms          *float64 `json:"p50_ms"`
	P99Ms          *float64 `json:"p99_ms"`
	Of             string   `json:"percentiles_of"`
	ElapsedSeconds float64  `json:"elapsed_seconds"`
}

// bench is a benchmark under way.
type bench struct {
	Config
	store store.Store
	began time.Time
	mu    sync.Mutex
	times []time.Duration
}

// Bench measures one arm: append stores messages, work carries out as many that
// were stored before, both does it at the same time. It leaves nothing behind.
func Bench(ctx context.Context, s store.Store, arm string, c Config) (Arm, error) {
	b := &bench{Config: c, store: s}
	if err := b.clean(ctx); err != nil {
		return Arm{}, err
	}
	var err error
	of := ""
	switch arm {
	case "append":
		b.began, of = time.Now(), "a call of append"
		err = b.append(ctx, nil)
	case "work":
		if err = b.append(ctx, nil); err == nil {
			b.times, b.began = nil, time.Now()
			err = b.work(ctx, nil)
		}
	case "both":
		b.began, of = time.Now(), "append to the start of the handler"
		err = b.work(ctx, func(wake func()) error { return b.append(ctx, wake) })
	}
	took := time.Since(b.began)
	err = errors.Join(err, b.clean(context.WithoutCancel(ctx)))
	result := Arm{
		Arm: arm, Count: c.Count, Size: c.Size, Keys: c.Keys, Batch: c.Batch, Concurrency: c.Concurrency,
		PerSecond: float64(c.Count) / took.Seconds(), ElapsedSeconds: took.Seconds(), Of: of,
	}
	if len(b.times) > 0 {
		slices.Sort(b.times)
		result.P50Ms, result.P99Ms = new(b.percentile(50)), new(b.percentile(99))
	}
	return result, err
}

func (b *bench) percentile(p int) float64 {
	return float64(b.times[(len(b.times)-1)*p/100]) / float64(time.Millisecond)
}

func (b *bench) took(ds ...time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times = append(b.times, ds...)
}

// append appends all messages by several producers; appended, if not nil, is
// told of every batch.
func (b *bench) append(ctx context.Context, appended func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range max(1, b.Producers) {
		wg.Go(func() {
			for ctx.Err() == nil {
				first := int(next.Add(int64(b.Batch))) - b.Batch
				if first >= b.Count {
					return
				}
				if b.PerSecond > 0 {
					time.Sleep(
						time.Until(began.Add(time.Duration(float64(first) / b.PerSecond * float64(time.Second)))))
				}
				called := time.Now()
				if _, err := b.store.Append(ctx, store.NewBatch(b.messages(first,
					min(b.Batch, b.Count-first))...)); err != nil {
					cancel(err)
					return
				}
				if appended == nil {
					b.took(time.Since(called))
				} else {
					appended()
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// messages makes n messages. The first bytes of a body tell when.
func (b *bench) messages(first, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	size := max(b.Size, 8)
	bodies := make([]byte, n*size)
	now := uint64(time.Since(b.began))
	for i := range msgs {
		body := bodies[i*size : (i+1)*size : (i+1)*size]
		binary.BigEndian.PutUint64(body, now)
		msgs[i] = pawl.Message{Topic: Topic, Body: body}
		if b.Keys > 0 {
			msgs[i].Key = strconv.AppendInt([]byte("key-"), int64((first+i)%b.Keys), 10)
		}
	}
	return msgs
}

// work carries out messages until none is left or, if producing is not nil, all
// were seen.
func (b *bench) work(ctx context.Context, producing func(wake func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var seen atomic.Int64
	handler := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		if producing != nil {
			b.took(time.Since(b.began) - time.Duration(binary.BigEndian.Uint64(d.Body)))
		}
		if int(seen.Add(1)) == b.Count {
			cancel(nil)
		}
		return nil
	})
	d, err := dispatch.New(b.store, dispatch.Config{
		Topics: []dispatch.Topic{{Name: Topic, Handler: handler, Concurrency: cmp.Or(b.Concurrency, 1)}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	if producing != nil {
		wg.Go(func() {
			if err := producing(func() { d.Wake() }); err != nil {
				cancel(err)
			}
		})
	}
	err = d.Run(ctx)
	wg.Wait()
	if cause := context.Cause(ctx); err == nil && int(seen.Load()) < b.Count {
		return fmt.Errorf("%d of %d messages were carried out: %w", seen.Load(), b.Count, cause)
	}
	return err
}

// clean takes out what is in the topic.
func (b *bench) clean(ctx context.Context) error {
	i, ok := store.As[store.Inspector](b.store, store.CanLookup)
	if !ok {
		return nil
	}
	var ids []string
	for r, err := range i.List(ctx, store.Filter{Topic: Topic}) {
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
	}
	for some := range slices.Chunk(ids, 1000) {
		if _, err := i.Cancel(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}
