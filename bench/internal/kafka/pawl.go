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

// pawlStore claims and settles in a tight loop, without a dispatcher.
type pawlStore struct{}

func (p *pawlStore) read(ctx context.Context, at *target, l *ledger) error {
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
		g.Go(func() error { return p.loop(ctx, s, at, l, wake) })
	}
	return errors.Join(g.Wait(), s.Close())
}

func (p *pawlStore) loop(ctx context.Context, s *kafka.Store, at *target, l *ledger, wake <-chan struct{}) error {
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

func (*pawlStore) settings() string {
	return fmt.Sprintf("%d loop(s) of claim and settle, ≤ %d a claim, runs of ≤ %d, commit every %v, %s",
		plan.PawlLoops, plan.PawlClaim, plan.PawlRun, plan.CommitEvery, fetchSettings())
}

// pawlDispatch runs a dispatcher, as a program has it.
type pawlDispatch struct{ batch bool }

func (p *pawlDispatch) read(ctx context.Context, at *target, l *ledger) error {
	s, err := open(ctx, at)
	if err != nil {
		return err
	}
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{p.topic(at, l)}})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return errors.Join(d.Run(ctx), s.Close())
}

func (p *pawlDispatch) topic(at *target, l *ledger) dispatch.Topic {
	if p.batch {
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
	return dispatch.Topic{
		Name: at.topic, Concurrency: plan.KafkaAtOnce,
		Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			l.handle(d.Body, at.takes, at.wait)
			return nil
		}),
	}
}

func (p *pawlDispatch) settings() string {
	how := fmt.Sprintf("%d handlers at once", plan.KafkaAtOnce)
	if p.batch {
		how = fmt.Sprintf("%d batches of ≤ %d at once", plan.PawlBatches, plan.PawlBatchSize)
	}
	return fmt.Sprintf("%s, order by key, commit every %v, everything else as it comes, %s", how, plan.CommitEvery,
		fetchSettings())
}
