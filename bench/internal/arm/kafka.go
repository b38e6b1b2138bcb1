package arm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/beside"
	"github.com/pawl-dev/pawl/bench/internal/brokers"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// kafkaArm reads one topic as a fresh group, or writes to another one. Pawl's arms have a store, the others a client.
type kafkaArm struct {
	name, addresses, topic, group string
	work                          plan.Work
	linger                        time.Duration
	brokers                       *brokers.Brokers
	client                        *kgo.Client
	store                         *kafka.Store
	warm                          int // records written before the clock started
}

func newKafka(addresses, name string, w plan.Work) *kafkaArm {
	k := &kafkaArm{name: name, addresses: addresses, work: w, topic: brokers.TopicOf(w.N),
		group: brokers.Prefix + name + "-" + pawl.NewID()}
	if k.writes() {
		k.topic = brokers.Written
	}
	if w.Kind == plan.Append {
		k.linger = plan.BurstLinger
	}
	return k
}

// NewFiller returns an arm that writes the topic of a [plan.Filling].
func NewFiller(addresses string, w plan.Work) Arm {
	k := newKafka(addresses, plan.Raw, w)
	k.topic = brokers.TopicOf(w.N)
	return k
}

func (k *kafkaArm) writes() bool { return k.work.Suite == plan.KafkaProduce }

func (k *kafkaArm) Setup(ctx context.Context) (err error) {
	if k.brokers, err = brokers.Dial(k.addresses); err != nil {
		return err
	}
	if k.writes() {
		return k.brokers.Create(ctx, k.topic)
	}
	if n, err := k.brokers.Size(ctx, k.topic); err != nil || n != k.work.N {
		return errors.Join(err, fmt.Errorf("topic %s has %d records", k.topic, n))
	}
	return nil
}

func (k *kafkaArm) Open(ctx context.Context) (err error) {
	switch {
	case k.sleeps():
		return nil
	case plan.IsPawl(k.name):
		k.store, err = kafka.Open(ctx, k.config())
	default:
		k.client, err = kgo.NewClient(k.options()...)
	}
	for k.topic == brokers.Written && err == nil && k.warm < 10*plan.KafkaPartitions { // so that connections are there
		err = k.Append(ctx, []Job{{Index: k.warm, Key: fmt.Appendf(nil, "warm-%d", k.warm)}})
		k.warm++
	}
	return err
}

func (k *kafkaArm) config() kafka.Config {
	c := kafka.Config{Brokers: k.brokers.Addresses, StateTopic: brokers.Prefix + "state"}
	if !k.writes() {
		c.Group = k.group
		c.Consume = kafka.Consuming{FetchMin: plan.FetchMinBytes, FetchWait: plan.FetchWait,
			FetchBytes: plan.FetchBytes, Commit: plan.CommitEvery}
		return c
	}
	c.Produce = kafka.Producing{Compression: "none", Linger: k.linger, BatchBytes: plan.ProduceBatchSize,
		BufferBytes: plan.ProduceBuffer}
	if k.linger == 0 {
		c.Produce.Linger = -1
	}
	return c
}

func (k *kafkaArm) options() []kgo.Opt {
	if k.writes() {
		return []kgo.Opt{
			kgo.SeedBrokers(k.brokers.Addresses...), kgo.RequiredAcks(kgo.AllISRAcks()),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(k.linger),
			kgo.MaxBufferedRecords(1 << 20), kgo.MaxBufferedBytes(plan.ProduceBuffer),
			kgo.ProducerBatchMaxBytes(plan.ProduceBatchSize),
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(k.brokers.Addresses...), kgo.ConsumerGroup(k.group), kgo.ConsumeTopics(k.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMinBytes(plan.FetchMinBytes), kgo.FetchMaxWait(plan.FetchWait), kgo.FetchMaxBytes(plan.FetchBytes),
		kgo.FetchMaxPartitionBytes(plan.FetchPartitionBytes), kgo.MaxConcurrentFetches(4),
	}
	if k.name == plan.PerPartition {
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	return options
}

func (k *kafkaArm) Append(ctx context.Context, jobs []Job) error {
	if k.store != nil {
		return appendTo(ctx, k.store, k.topic, k.work.Bytes, jobs)
	}
	records := make([]*kgo.Record, len(jobs))
	for i, j := range jobs {
		records[i] = &kgo.Record{Topic: k.topic, Key: j.Key, Value: body(j.Index, k.work.Bytes)}
	}
	return k.client.ProduceSync(ctx, records...).FirstErr()
}

func (k *kafkaArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	dispatched := func(t dispatch.Topic) (func(context.Context) error, error) {
		return beside.Dispatcher(ctx, k.store, dispatch.Config{Topics: []dispatch.Topic{t}}, h.Failed)
	}
	switch k.name {
	case plan.PawlDispatch:
		return dispatched(dispatch.Topic{Name: k.topic, Concurrency: plan.KafkaAtOnce, Handler: h.one()})
	case plan.PawlBatch:
		return dispatched(dispatch.Topic{Name: k.topic, Concurrency: plan.PawlBatches, BatchSize: plan.PawlBatchSize,
			Batch: h.batch()})
	case plan.PawlStore:
		return loops(ctx, plan.PawlLoops, h, func(ctx context.Context) error { return k.claimAndSettle(ctx, h) }), nil
	case plan.PerPartition:
		return loops(ctx, 1, h, func(ctx context.Context) error { return k.perPartition(ctx, h) }), nil
	case plan.Raw:
		return loops(ctx, 1, h, func(ctx context.Context) error { return k.poll(ctx, h) }), nil
	case plan.Sleepers, plan.SleepersBusy:
		var left atomic.Int64
		left.Store(int64(k.work.N))
		return loops(ctx, plan.KafkaAtOnce, h, func(context.Context) error { return k.sleep(&left, h) }), nil
	}
	return nil, fmt.Errorf("suite %s has no arm %q", k.work.Suite, k.name)
}

// loops runs a loop n times at once until it is stopped, and tells of one that fails.
func loops(ctx context.Context, n int, h Handler, loop func(context.Context) error) func(context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				h.Failed(err)
			}
		})
	}
	return func(context.Context) error {
		cancel()
		all.Wait()
		return nil
	}
}

// poll polls and counts, and does nothing else: the ceiling.
func (k *kafkaArm) poll(ctx context.Context, h Handler) error {
	for {
		fetches := k.client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		h.Count(fetches.NumRecords())
	}
}

// sleep does the work of as many records with nothing around it but a little calculation, without a broker: what the
// machine and its timers leave of the possible.
func (k *kafkaArm) sleep(left *atomic.Int64, h Handler) error {
	for {
		i := left.Add(-1)
		if i < 0 {
			return nil
		}
		for began := time.Now(); k.name == plan.SleepersBusy && time.Since(began) < plan.SleepersWork; { //nolint:revive // that is the work
		}
		h.Do(k.work.N - 1 - int(i))
	}
}

// perPartition is what people write: a goroutine for every partition, which carries out one record after the other and
// commits after each batch that was fetched.
func (k *kafkaArm) perPartition(ctx context.Context, h Handler) error {
	g, ctx := errgroup.WithContext(ctx)
	partitions := map[int32]chan []*kgo.Record{}
	for ctx.Err() == nil {
		fetches := k.client.PollRecords(ctx, 10_000)
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			return err
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			ch := partitions[f.Partition]
			if ch == nil {
				ch = make(chan []*kgo.Record, 5)
				partitions[f.Partition] = ch
				g.Go(func() error { return k.carryOut(ch, h) })
			}
			select {
			case ch <- f.Records:
			case <-ctx.Done():
			}
		})
		k.client.AllowRebalance()
	}
	for _, ch := range partitions {
		close(ch)
	}
	return g.Wait()
}

func (k *kafkaArm) carryOut(batches <-chan []*kgo.Record, h Handler) error {
	for records := range batches {
		for _, r := range records {
			if err := h.do(r.Value); err != nil {
				return err
			}
		}
		if err := k.client.CommitRecords(context.Background(), records...); err != nil {
			return err
		}
	}
	return nil
}

// claimAndSettle does both in a tight loop, without a dispatcher.
func (k *kafkaArm) claimAndSettle(ctx context.Context, h Handler) error {
	wake, err := k.store.Listen(ctx, k.topic)
	if err != nil {
		return err
	}
	wants := []store.Want{{Topic: k.topic, Limit: plan.PawlClaim, Run: plan.PawlRun}}
	acks := make([]store.Settlement, 0, plan.PawlClaim)
	for ctx.Err() == nil {
		ds, err := k.store.Claim(ctx, wants, store.Lease{For: dispatch.DefaultLease, Owner: "bench"})
		if err != nil {
			return err
		}
		if len(ds) == 0 {
			select {
			case <-wake:
			case <-time.After(dispatch.DefaultPollMin):
			case <-ctx.Done():
			}
			continue
		}
		acks = acks[:0]
		for i := range ds {
			if err := h.do(ds[i].Body); err != nil {
				return err
			}
			acks = append(acks, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
		}
		refused, err := k.store.Settle(context.WithoutCancel(ctx), store.NewBatch(acks...))
		if err == nil && len(refused) > 0 {
			err = refused[0].Err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *kafkaArm) sleeps() bool { return k.name == plan.Sleepers || k.name == plan.SleepersBusy }

// Left counts what is not committed of what is read, or what is there of what was written.
func (k *kafkaArm) Left(ctx context.Context) (int, error) {
	switch {
	case k.writes():
		n, err := k.brokers.Size(ctx, k.topic)
		return n - k.warm, err
	case k.name == plan.Raw, k.sleeps(): // they commit nothing
		return 0, nil
	}
	n, err := k.brokers.Committed(ctx, k.group, k.topic)
	return k.work.N - n, err
}

// Ordered reports order per key.
func (k *kafkaArm) Ordered() bool { return k.name != plan.Raw && !k.sleeps() }

func (k *kafkaArm) Settings() string {
	fetch := fmt.Sprintf("fetch %d B to %d MiB, %d MiB of a partition, wait %v", plan.FetchMinBytes, plan.FetchBytes>>20,
		plan.FetchPartitionBytes>>20, plan.FetchWait)
	if k.writes() {
		calls := "each by itself"
		if k.work.Kind == plan.Append {
			calls = fmt.Sprintf("%d a call, %d calls at once", plan.AppendBatch, k.work.Producers)
		}
		return fmt.Sprintf("%s, acks=all, idempotent, no compression, linger %v, batches of ≤ %d KiB, buffer %d MiB",
			calls, k.linger, plan.ProduceBatchSize>>10, plan.ProduceBuffer>>20)
	}
	dispatched := fmt.Sprintf("order by key, commit every %v, everything else as it comes, %s", plan.CommitEvery, fetch)
	return map[string]string{
		plan.Raw:          "franz-go, polled and counted, nothing committed, " + fetch,
		plan.PerPartition: "franz-go, a goroutine for each partition, a commit for each batch fetched, " + fetch,
		plan.PawlStore: fmt.Sprintf("%d loop(s) of claim and settle, ≤ %d a claim, runs of ≤ %d, commit every %v, %s",
			plan.PawlLoops, plan.PawlClaim, plan.PawlRun, plan.CommitEvery, fetch),
		plan.PawlDispatch: fmt.Sprintf("%d handlers at once, %s", plan.KafkaAtOnce, dispatched),
		plan.PawlBatch:    fmt.Sprintf("%d batches of ≤ %d at once, %s", plan.PawlBatches, plan.PawlBatchSize, dispatched),
		plan.Sleepers:     fmt.Sprintf("%d goroutines that sleep and count, no broker", plan.KafkaAtOnce),
		plan.SleepersBusy: fmt.Sprintf("%d goroutines that calculate for %v, sleep and count, no broker", plan.KafkaAtOnce,
			plan.SleepersWork),
	}[k.name]
}

func (k *kafkaArm) Close() (err error) {
	if k.store != nil {
		err = k.store.Close()
	}
	if k.client != nil {
		k.client.CloseAllowingRebalance()
	}
	if k.brokers != nil {
		k.brokers.Close()
	}
	return err
}
