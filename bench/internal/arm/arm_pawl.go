package arm

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/beside"
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
	return setUp(ctx, p, func() error {
		_, err := p.store.Declare(ctx, store.Declaration{Name: pawlTopic, Order: p.order})
		return err
	})
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
	return store.Send(ctx, s, msgs...)
}

func (p *pawlArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	t := dispatch.Topic{Name: pawlTopic, Concurrency: plan.PawlConcurrency, Handler: h.one()}
	return beside.Dispatcher(ctx, p.store, dispatch.Config{Topics: []dispatch.Topic{t}}, h.Failed)
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
