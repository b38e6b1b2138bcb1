package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/work"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// writer is a way to write to a topic.
type writer interface {
	// burst writes n records and returns when the brokers have them.
	burst(ctx context.Context, m *maker, n int) error
	// one writes one record; done is called when the brokers have it.
	one(ctx context.Context, key, body []byte, done func(error))
	settings() string
	close() error
}

func (t *Task) produce(ctx context.Context, b *Brokers) (o work.Outcome, settings string, err error) {
	topic := prefix + "write"
	if err := b.recreate(ctx, topic); err != nil {
		return o, "", err
	}
	linger := plan.BurstLinger
	if t.Work.Kind == plan.Paced {
		linger = 0
	}
	w, err := t.writerOf(ctx, b, topic, linger)
	if err != nil {
		return o, "", err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	settings = w.settings()
	if err := oneByOne(ctx, w); err != nil { // connections and producer ids are there when the clock starts
		return o, "", err
	}
	before, err := b.size(ctx, topic)
	if err != nil {
		return o, "", err
	}
	var m meter.Meter
	if err := m.Begin(ctx); err != nil {
		return o, "", err
	}
	if t.Work.Kind == plan.Burst {
		o, err = t.burst(ctx, w)
	} else {
		o, err = t.paced(ctx, w)
	}
	if err = errors.Join(err, m.End(ctx)); err != nil {
		return o, "", err
	}
	o.RSS = meter.PeakRSS()
	if o.Costs, err = m.Settle(ctx); err != nil {
		return o, "", err
	}
	after, err := b.size(ctx, topic)
	if err == nil && after-before != int64(o.N) {
		err = fmt.Errorf("%d of %d records are in the topic", after-before, o.N)
	}
	return o, settings, err
}

// recreate empties a topic.
func (b *Brokers) recreate(ctx context.Context, topic string) error {
	if _, err := b.admin.DeleteTopics(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	if err := b.create(ctx, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

func (t *Task) writerOf(ctx context.Context, b *Brokers, topic string, linger time.Duration) (writer, error) {
	switch t.Arm {
	case plan.Raw:
		return newRawWriter(b, topic, linger)
	case plan.Pawl:
		return newPawlWriter(ctx, b, topic, linger)
	default:
		return nil, fmt.Errorf("suite %s has no arm %q", t.Work.Suite, t.Arm)
	}
}

func oneByOne(ctx context.Context, w writer) error {
	m := newMaker(plan.KafkaKeys, plan.ProduceBytes)
	for range 10 * plan.KafkaPartitions {
		key, body := m.next()
		outcome := make(chan error, 1)
		w.one(ctx, key, body, func(err error) { outcome <- err })
		if err := <-outcome; err != nil {
			return err
		}
	}
	return nil
}

func (t *Task) burst(ctx context.Context, w writer) (o work.Outcome, err error) {
	began := time.Now()
	err = w.burst(ctx, newMaker(plan.KafkaKeys, plan.ProduceBytes), t.Work.N)
	o.Ran(t.Work.N, began)
	return o, err
}

// paced is an open loop: a record is sent when it is due, whatever became of the
// ones before. Its latency counts from when it was due.
func (t *Task) paced(ctx context.Context, w writer) (o work.Outcome, err error) {
	n := int(float64(t.Work.Rate) * t.Work.For.Seconds())
	perTick := int(float64(t.Work.Rate) * plan.PacedTick.Seconds())
	latencies := make([]time.Duration, n)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	m := newMaker(plan.KafkaKeys, plan.ProduceBytes)
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i/perTick) * plan.PacedTick)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if ctx.Err() != nil {
			return o, context.Cause(ctx)
		}
		key, body := m.next()
		wg.Add(1)
		w.one(ctx, key, body, func(err error) {
			latencies[i] = time.Since(due)
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	o.Ran(n, began)
	if err := failed.Load(); err != nil {
		return o, *err
	}
	warm := latencies[min(int(float64(t.Work.Rate)*plan.PacedWarmUp.Seconds()), n/2):]
	slices.Sort(warm)
	o.Timed, o.P50, o.P99 = true, meter.Percentile(warm, 0.50), meter.Percentile(warm, 0.99)
	return o, nil
}

func produceSettings(linger time.Duration) string {
	return fmt.Sprintf("acks=all, idempotent, no compression, linger %v, batches of ≤ %d KiB, buffer %d MiB",
		linger, plan.ProduceBatchSize>>10, plan.ProduceBuffer>>20)
}

// rawWriter is the bare client.
type rawWriter struct {
	client *kgo.Client
	topic  string
	about  string
}

func newRawWriter(b *Brokers, topic string, linger time.Duration) (*rawWriter, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addresses...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(plan.ProduceBuffer),
		kgo.ProducerBatchMaxBytes(plan.ProduceBatchSize))
	if err != nil {
		return nil, fmt.Errorf("make a producer: %w", err)
	}
	return &rawWriter{client, topic, "franz-go, " + produceSettings(linger)}, nil
}

func (w *rawWriter) burst(ctx context.Context, m *maker, n int) error {
	var failed atomic.Pointer[error]
	for range n {
		key, body := m.next()
		w.one(ctx, key, body, func(err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := w.client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *rawWriter) one(ctx context.Context, key, body []byte, done func(error)) {
	w.client.Produce(ctx, &kgo.Record{Topic: w.topic, Key: key, Value: body}, func(_ *kgo.Record, err error) {
		done(err)
	})
}

func (w *rawWriter) settings() string { return w.about }

func (w *rawWriter) close() error {
	w.client.Close()
	return nil
}

// pawlWriter calls Append.
type pawlWriter struct {
	store *kafka.Store
	topic string
	about string
}

func newPawlWriter(ctx context.Context, b *Brokers, topic string, linger time.Duration) (*pawlWriter, error) {
	c := kafka.Config{Brokers: b.addresses, StateTopic: prefix + "state", Produce: kafka.Producing{
		Compression: "none", Linger: linger, BatchBytes: plan.ProduceBatchSize, BufferBytes: plan.ProduceBuffer,
	}}
	if linger == 0 {
		c.Produce.Linger = -1
	}
	s, err := kafka.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	about := fmt.Sprintf("Append, bursts: %d messages a call, %d calls at once; %s", plan.ProduceBatch,
		plan.ProduceCallers, produceSettings(linger))
	return &pawlWriter{s, topic, about}, nil
}

// burst calls Append for full batches, several at once. The order of a key is not
// looked at.
func (w *pawlWriter) burst(ctx context.Context, m *maker, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(plan.ProduceCallers)
	for from := 0; from < n; from += plan.ProduceBatch {
		msgs := make([]pawl.Message, min(plan.ProduceBatch, n-from))
		for i := range msgs {
			msgs[i].Topic = w.topic
			msgs[i].Key, msgs[i].Body = m.next()
		}
		g.Go(func() error { return w.append(ctx, msgs...) })
	}
	return g.Wait()
}

func (w *pawlWriter) append(ctx context.Context, msgs ...pawl.Message) error {
	receipts, err := w.store.Append(ctx, store.NewBatch(msgs...))
	if err != nil {
		return err
	}
	for i := range receipts {
		if receipts[i].Err != nil {
			return receipts[i].Err
		}
	}
	return nil
}

func (w *pawlWriter) one(ctx context.Context, key, body []byte, done func(error)) {
	go func() { done(w.append(ctx, pawl.Message{Topic: w.topic, Key: key, Body: body})) }()
}

func (w *pawlWriter) settings() string { return w.about }

func (w *pawlWriter) close() error { return w.store.Close() }
