package arm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Kind names the job for River.
func (Payload) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[Payload]
	h Handler
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[Payload]) error {
	w.h.Do(job.Args.Index)
	return nil
}

// riverArm runs one River client that inserts and works, as a program with
// both roles has it.
type riverArm struct {
	name, dsn string
	pool      *pgxpool.Pool
	worker    *riverWorker
	client    *river.Client[pgx.Tx]
}

func (r *riverArm) Setup(ctx context.Context) error {
	return setUp(ctx, r, func() error {
		migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{
			Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		}
		return err
	})
}

func (r *riverArm) Open(ctx context.Context) (err error) {
	c, err := pgxpool.ParseConfig(r.dsn)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	c.MaxConns = plan.PoolConns
	if r.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r.worker = &riverWorker{}
	workers := river.NewWorkers()
	river.AddWorker(workers, r.worker)
	if r.client, err = river.NewClient(riverpgxv5.New(r.pool), r.config(workers)); err != nil {
		return fmt.Errorf("make a River client: %w", err)
	}
	return nil
}

func (r *riverArm) config(workers *river.Workers) *river.Config {
	c := &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: plan.RiverDefaultWorkers}},
	}
	if r.name != plan.RiverDefaults {
		c.FetchCooldown, c.FetchPollInterval = plan.RiverCooldown, plan.RiverPoll
		c.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: plan.RiverWorkers}
	}
	return c
}

func (r *riverArm) Append(ctx context.Context, jobs []Job) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i].Args = payload(j.Index)
	}
	var err error
	if r.name == plan.RiverInsertMany {
		_, err = r.client.InsertMany(ctx, params)
	} else {
		_, err = r.client.InsertManyFast(ctx, params)
	}
	if err != nil {
		return fmt.Errorf("insert %d River jobs: %w", len(jobs), err)
	}
	return nil
}

func (r *riverArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	r.worker.h = h
	if err := r.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("start River: %w", err)
	}
	return r.client.Stop, nil
}

// Left asks state by state: River keeps what is done for a day, and its
// fetching index leads with the state.
func (r *riverArm) Left(ctx context.Context) (left int, err error) {
	const query = `SELECT count(*) FROM river_job
		WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')`
	if err := r.pool.QueryRow(ctx, query).Scan(&left); err != nil {
		return 0, fmt.Errorf("count River's jobs: %w", err)
	}
	return left, nil
}

// Ordered: no order per key.
func (*riverArm) Ordered() bool { return false }

func (r *riverArm) Settings() string {
	c := r.config(nil)
	insert := "InsertManyFast"
	if r.name == plan.RiverInsertMany {
		insert = "InsertMany"
	}
	return fmt.Sprintf("%d workers, fetch cooldown %v, poll %v, %s, its own completer (≤5,000 a batch), %d connections",
		c.Queues[river.QueueDefault].MaxWorkers, cmp.Or(c.FetchCooldown, river.FetchCooldownDefault),
		cmp.Or(c.FetchPollInterval, river.FetchPollIntervalDefault), insert, plan.PoolConns)
}

func (r *riverArm) Close() error {
	if r.pool != nil {
		r.pool.Close()
	}
	return nil
}
