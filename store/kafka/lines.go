package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// Lines writes lines of text to a topic, a record each: logs, say. It is no store. Make one with [NewLines].
type Lines struct {
	core   *core
	client *kgo.Client
	topic  string
	create Creation
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// How lines are produced, where the configuration does not say: soon, and given up while whoever waits still does.
const (
	linesLinger  = 2 * time.Millisecond
	linesTimeout = 10 * time.Second
)

// NewLines returns what has not connected to a broker yet. A topic that is missing is created. It reports everything
// that is wrong with c at once.
func NewLines(c Config, topic string) (*Lines, error) {
	def(&c.Produce.Linger, linesLinger)
	def(&c.Produce.Timeout, linesTimeout)
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	secure, err := c.identity()
	if err != nil {
		return nil, &store.Error{Op: "open", Code: store.ErrInvalid, Err: err}
	}
	s := &core{cfg: c, tls: secure}
	l := &Lines{core: s, topic: c.Prefix + topic, create: c.Create}
	l.client, err = kgo.NewClient(append(s.options(),
		kgo.DefaultProduceTopic(l.topic),
		kgo.ProducerBatchCompression(slices.Clone(codecs[c.Produce.Compression])...), // the client writes to it
		kgo.ProducerLinger(max(c.Produce.Linger, 0)), kgo.ProducerBatchMaxBytes(c.Produce.BatchBytes),
		kgo.MaxBufferedRecords(math.MaxInt), // whoever produces has the bound
		kgo.RecordDeliveryTimeout(c.Produce.Timeout), kgo.RecordRetries(c.Produce.Retries), kgo.UnknownTopicRetries(30),
	)...)
	if err != nil {
		return nil, &store.Error{Op: "open", Code: store.ErrInvalid, Err: err}
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.wg.Go(l.ensure)
	return l, nil
}

// ensure connects, so that the first lines do not wait for that, and creates the topic as soon as a broker answers.
func (l *Lines) ensure() {
	_, _, _ = l.client.ProducerID(l.ctx) // producing says what is wrong
	for admin := kadm.NewClient(l.client); !l.create.Off; {
		answer, err := admin.CreateTopic(l.ctx, cmp.Or(l.create.Partitions, -1), cmp.Or(l.create.Replicas, -1), nil,
			l.topic)
		err = cmp.Or(err, answer.Err)
		if err == nil || answered(err) || store.Sleep(l.ctx, time.Second) != nil {
			return // it is there, or may not be made: then producing says so
		}
	}
}

// Produce sends lines, about n of them, and returns at once. When the outcome of all is known, it calls done with how
// many were not stored, and why. The lines must not change until then. A line feed at their end is left out.
func (l *Lines) Produce(n int, lines iter.Seq[[]byte], done func(unsent int, err error)) {
	records, now := make([]kgo.Record, 0, n), time.Now()
	for line := range lines {
		records = append(records, kgo.Record{Value: bytes.TrimSuffix(line, []byte{'\n'}), Timestamp: now})
	}
	if len(records) == 0 {
		done(0, nil)
		return
	}
	var left, unsent atomic.Int64
	var why atomic.Pointer[error]
	left.Store(int64(len(records)))
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			unsent.Add(1)
			why.CompareAndSwap(nil, &err)
		}
		if left.Add(-1) > 0 {
			return
		}
		if first := why.Load(); first != nil {
			done(int(unsent.Load()), l.explain(*first))
			return
		}
		done(0, nil)
	}
	for i := range records {
		l.client.Produce(l.ctx, &records[i], promise)
	}
}

// explain adds to an error what a person can do about it.
func (l *Lines) explain(err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("the topic does not exist, and could not be created: %w", err)
	}
	if hint, _ := l.core.codeOf(err); hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}

// Close gives up what is on its way.
func (l *Lines) Close() {
	l.stop()
	l.client.Close()
	l.wg.Wait()
}
