package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/work"
)

// Task is one arm's round.
type Task struct {
	Addresses string // of brokers, with commas between them
	Arm       string
	Work      plan.Work
	Jars      string // of Parallel Consumer
}

// reader is a way to read a topic. read returns when the ledger is full and all
// that is to be committed is.
type reader struct {
	read     func(ctx context.Context, t *target, l *ledger) error
	settings string
}

// target is what is read, and as whom.
type target struct {
	brokers      []string
	topic, group string
	takes        time.Duration // a record's work
	wait         func(time.Duration)
	jars         string
}

// Do carries a task out and describes the arm's settings.
func (t *Task) Do(ctx context.Context) (o work.Outcome, settings string, err error) {
	b, err := dial(t.Addresses)
	if err != nil {
		return o, "", err
	}
	defer b.client.Close()
	switch t.Work.Kind {
	case plan.Consume:
		return t.consume(ctx, b)
	case plan.Burst, plan.Paced:
		return t.produce(ctx, b)
	default:
		return o, "", fmt.Errorf("no such kind of work: %q", t.Work.Kind)
	}
}

func (t *Task) consume(ctx context.Context, b *Brokers) (o work.Outcome, settings string, err error) {
	at := &target{
		brokers: b.addresses, topic: TopicOf(t.Work.N), group: prefix + t.Arm + "-" + pawl.NewID(), takes: t.Work.Takes,
		jars: t.Jars,
		wait: time.Sleep,
	}
	if t.Work.Answered {
		wait, done, err := answers(plan.KafkaAtOnce)
		if err != nil {
			return o, "", err
		}
		defer done()
		at.wait = wait
	}
	if n, err := b.size(ctx, at.topic); err != nil || n != int64(t.Work.N) {
		return o, "", errors.Join(err, fmt.Errorf("topic %s has %d records", at.topic, n))
	}
	if t.Arm == plan.ParallelConsumer {
		o, settings, err = parallel(ctx, at, t.Work.N)
	} else {
		o, settings, err = t.inProcess(ctx, at)
	}
	if err != nil {
		return o, "", err
	}
	o.N, o.PerSecond = t.Work.N, float64(t.Work.N)/o.Elapsed.Seconds()
	if t.Arm == plan.Raw || t.Arm == plan.Sleepers || t.Arm == plan.SleepersBusy {
		return o, settings, nil // they commit nothing
	}
	n, err := b.committed(ctx, at.group, at.topic)
	if err == nil && n != int64(t.Work.N) {
		err = fmt.Errorf("%d of %d records are committed", n, t.Work.N)
	}
	return o, settings, err
}

func (t *Task) inProcess(ctx context.Context, at *target) (o work.Outcome, settings string, err error) {
	r, ok := readers[t.Arm]
	if !ok {
		return o, "", fmt.Errorf("suite %s has no arm %q", t.Work.Suite, t.Arm)
	}
	l := newLedger(t.Work.N, t.Work.Keys)
	var m meter.Meter
	if err := m.Begin(ctx); err != nil {
		return o, "", err
	}
	stop := make(chan error, 1)
	go func() {
		<-l.done
		stop <- m.End(ctx)
	}()
	if err := r.read(ctx, at, l); err != nil {
		return o, "", fmt.Errorf("after %d of %d records: %w", l.handled.Load(), l.want, err)
	}
	if err := errors.Join(<-stop, l.verdict()); err != nil {
		return o, "", err
	}
	o.Elapsed, o.Repeated, o.RSS = l.elapsed(), int(l.repeated.Load()), meter.PeakRSS()
	o.Costs, err = m.Settle(ctx)
	return o, r.settings, err
}

// readers are the arms that read in this process.
var readers = map[string]reader{
	plan.Raw:          {readRaw, "franz-go, polled and counted, nothing committed, " + fetchSettings},
	plan.Sleepers:     sleepers(0),
	plan.SleepersBusy: sleepers(plan.SleepersWork),
	plan.PerPartition: {readPerPartition, "franz-go, a goroutine for each partition, a commit for each batch fetched, " +
		fetchSettings},
	plan.PawlStore: {claimAndSettle,
		fmt.Sprintf("%d loop(s) of claim and settle, ≤ %d a claim, runs of ≤ %d, commit every %v, %s",
			plan.PawlLoops, plan.PawlClaim, plan.PawlRun, plan.CommitEvery, fetchSettings)},
	plan.PawlDispatch: dispatched(one, fmt.Sprintf("%d handlers at once", plan.KafkaAtOnce)),
	plan.PawlBatch:    dispatched(batches, fmt.Sprintf("%d batches of ≤ %d at once", plan.PawlBatches, plan.PawlBatchSize)),
}

// options are those of every consumer that is made here. Pawl is set to the same.
func (at *target) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(at.brokers...), kgo.ConsumerGroup(at.group), kgo.ConsumeTopics(at.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMinBytes(plan.FetchMinBytes), kgo.FetchMaxWait(plan.FetchWait), kgo.FetchMaxBytes(plan.FetchBytes),
		kgo.FetchMaxPartitionBytes(plan.FetchPartitionBytes), kgo.MaxConcurrentFetches(4),
	}
}

var fetchSettings = fmt.Sprintf("fetch %d B to %d MiB, %d MiB of a partition, wait %v",
	plan.FetchMinBytes, plan.FetchBytes>>20, plan.FetchPartitionBytes>>20, plan.FetchWait)

// until is a context that ends with the ledger, too.
func (l *ledger) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
