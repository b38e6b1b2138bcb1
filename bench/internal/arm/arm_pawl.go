package arm

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const pawlTopic = "bench"

// pawlArm runs a dispatcher over a store, as a program with both roles has it.
type pawlArm struct {
	order store.Order
	about string // what is set on the store
	open  func(context.Context) (pawlStore, error)
	store pawlStore
}

// pawlStore is what the arm needs of a store.
type pawlStore interface {
	store.Store
	store.Topics
}

func newPawl(ordered bool, about string, open func(context.Context) (pawlStore, error)) *pawlArm {
	p := &pawlArm{order: store.OrderNone, about: about, open: open}
	if ordered {
		p.order = store.OrderKey
	}
	return p
}

func newPawlPostgres(url string, ordered bool) *pawlArm {
	c := postgres.Config{URL: url, MaxConns: plan.PoolConns, AutoMigrate: true}
	about := fmt.Sprintf("%d connections", plan.PoolConns)
	return newPawl(ordered, about, func(ctx context.Context) (pawlStore, error) { return postgres.Open(ctx, c) })
}

func newPawlSQLite(path string, ordered bool) *pawlArm {
	c := sqlite.Config{Path: path, Synchronous: sqlite.Synchronous(plan.SQLiteSync)}
	about := fmt.Sprintf("modernc.org/sqlite, synchronous=%s, its own group commit", plan.SQLiteSync)
	return newPawl(ordered, about, func(ctx context.Context) (pawlStore, error) { return sqlite.Open(ctx, c) })
}

func (p *pawlArm) Setup(ctx context.Context) error {
	if err := p.Open(ctx); err != nil {
		return err
	}
	if _, err := p.store.Declare(ctx, store.Declaration{Name: pawlTopic, Order: p.order}); err != nil {
		return fmt.Errorf("declare the topic: %w", err)
	}
	return p.Close()
}

func (p *pawlArm) Open(ctx context.Context) (err error) {
	p.store, err = p.open(ctx)
	return err
}

func (p *pawlArm) Append(ctx context.Context, jobs []Job) error {
	return appendTo(ctx, p.store, pawlTopic, plan.PayloadBytes, jobs)
}

// appendTo stores jobs of a size in one call.
func appendTo(ctx context.Context, s store.Store, topic string, size int, jobs []Job) error {
	msgs := make([]pawl.Message, len(jobs))
	for i, j := range jobs {
		msgs[i] = pawl.Message{Topic: topic, Key: j.Key, Body: body(j.Index, size)}
	}
	receipts, err := s.Append(ctx, store.NewBatch(msgs...))
	if err != nil {
		return fmt.Errorf("append %d messages: %w", len(jobs), err)
	}
	for _, r := range receipts {
		if r.Err != nil || r.DuplicateOf != "" {
			return fmt.Errorf("append message %s: duplicate of %q: %w", r.ID, r.DuplicateOf, r.Err)
		}
	}
	return nil
}

func (p *pawlArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	return dispatched(ctx, p.store, dispatch.Topic{Name: pawlTopic, Concurrency: plan.PawlConcurrency, Handler: h.one()})
}

// dispatched runs a dispatcher over a store, as a program has it.
func dispatched(ctx context.Context, s store.Store, t dispatch.Topic) (func(context.Context) error, error) {
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{t}})
	if err != nil {
		return nil, fmt.Errorf("make a dispatcher: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func(context.Context) error {
		cancel()
		return <-ended
	}, nil
}

// one is a handler of messages.
func (h Handler) one() pawl.Handler {
	return pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error { return h.do(d.Body) })
}

// batch is a handler of batches.
func (h Handler) batch() pawl.BatchHandler {
	return pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
		errs := make([]error, len(ds))
		for i, d := range ds {
			errs[i] = h.do(d.Body)
		}
		return errs
	})
}

func (p *pawlArm) Left(ctx context.Context) (int, error) {
	stats, err := p.store.Stats(ctx, pawlTopic)
	if err != nil {
		return 0, fmt.Errorf("count Pawl's messages: %w", err)
	}
	if len(stats) != 1 {
		return 0, fmt.Errorf("count Pawl's messages: %d topics", len(stats))
	}
	s := &stats[0]
	if s.Dead > 0 {
		return 0, fmt.Errorf("count Pawl's messages: %d are dead", s.Dead)
	}
	return int(s.Waiting + s.Delayed + s.Leased), nil
}

// Ordered reports order per key.
func (p *pawlArm) Ordered() bool { return p.order == store.OrderKey }

func (p *pawlArm) Settings() string {
	return fmt.Sprintf("%d handlers at once, order %s, lease %v, poll %v to %v, everything else as it comes, %s",
		plan.PawlConcurrency, p.order, dispatch.DefaultLease, dispatch.DefaultPollMin, dispatch.DefaultPollMax, p.about)
}

func (p *pawlArm) Close() error {
	if p.store == nil {
		return nil
	}
	return p.store.Close()
}
