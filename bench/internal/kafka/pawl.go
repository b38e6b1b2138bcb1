package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

func open(ctx context.Context, at *target) (*kafka.Store, error) {
	return kafka.Open(ctx, kafka.Config{
		Brokers: at.brokers, Group: at.group, StateTopic: prefix + "state",
		Consume: kafka.Consuming{
			FetchMin: plan.FetchMinBytes, FetchWait: plan.FetchWait, FetchBytes: plan.FetchBytes,
			Commit: plan.CommitEvery,
		},
	})
}

// claimAndSettle does both in a tight loop, without a dispatcher.
func claimAndSettle(ctx context.Context, at *target, l *ledger) error {
	s, err := open(ctx, at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	wake, err := s.Listen(ctx, at.topic)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	for range plan.PawlLoops {
		g.Go(func() error { return loop(ctx, s, at, l, wake) })
	}
	return errors.Join(g.Wait(), s.Close())
}

func loop(ctx context.Context, s *kafka.Store, at *target, l *ledger, wake <-chan struct{}) error {
	wants := []store.Want{{Topic: at.topic, Limit: plan.PawlClaim, Run: plan.PawlRun}}
	acks := make([]store.Settlement, 0, plan.PawlClaim)
	for {
		ds, err := s.Claim(ctx, wants, store.Lease{For: dispatch.DefaultLease, Owner: "bench"})
		if err != nil {
			return err
		}
		if len(ds) == 0 {
			select {
			case <-wake:
			case <-time.After(dispatch.DefaultPollMin):
			case <-l.done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		acks = acks[:0]
		for i := range ds {
			l.check(ds[i].Body)
			acks = append(acks, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
		}
		refused, err := s.Settle(ctx, store.NewBatch(acks...))
		if err == nil && len(refused) > 0 {
			err = refused[0].Err
		}
		if err != nil {
			return err
		}
		l.count(len(ds))
	}
}

// dispatched runs a dispatcher, as a program has it.
func dispatched(topic func(*target, *ledger) dispatch.Topic, how string) reader {
	read := func(ctx context.Context, at *target, l *ledger) error {
		s, err := open(ctx, at)
		if err != nil {
			return err
		}
		d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{topic(at, l)}})
		if err != nil {
			return errors.Join(err, s.Close())
		}
		ctx, cancel := l.until(ctx)
		defer cancel()
		return errors.Join(d.Run(ctx), s.Close())
	}
	return reader{read, fmt.Sprintf("%s, order by key, commit every %v, everything else as it comes, %s", how,
		plan.CommitEvery, fetchSettings)}
}

func batches(at *target, l *ledger) dispatch.Topic {
	return dispatch.Topic{
		Name: at.topic, Concurrency: plan.PawlBatches, BatchSize: plan.PawlBatchSize,
		Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
			for _, d := range ds {
				l.check(d.Body)
			}
			l.count(len(ds))
			return make([]error, len(ds))
		}),
	}
}

func one(at *target, l *ledger) dispatch.Topic {
	return dispatch.Topic{
		Name: at.topic, Concurrency: plan.KafkaAtOnce,
		Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			l.handle(d.Body, at.takes, at.wait)
			return nil
		}),
	}
}
