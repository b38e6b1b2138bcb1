package arm

import (
	"context"
	"errors"
	"fmt"

	"github.com/mikestefanello/backlite"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Config makes a Payload a backlite task that keeps nothing when it is done.
func (Payload) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "bench", MaxAttempts: 3}
}

type backliteArm struct {
	sqliteArm
	client *backlite.Client
}

func (b *backliteArm) workers() int {
	if b.name == plan.BackliteDefaults {
		return plan.BackliteExamples
	}
	return plan.BackliteWorkers
}

func (b *backliteArm) Setup(ctx context.Context) error {
	return setUp(ctx, b, func() error { return b.client.Install() })
}

func (b *backliteArm) Open(context.Context) (err error) {
	if err := b.open(); err != nil {
		return err
	}
	b.client, err = backlite.NewClient(backlite.ClientConfig{
		DB: b.db, NumWorkers: b.workers(), ReleaseAfter: plan.BackliteReleaseIn,
	})
	if err != nil {
		return fmt.Errorf("make a backlite client: %w", err)
	}
	return nil
}

func (b *backliteArm) Append(ctx context.Context, batch []Job) error {
	tasks := make([]backlite.Task, len(batch))
	for i, j := range batch {
		tasks[i] = payload(j.Index)
	}
	if _, err := b.client.Add(tasks...).Ctx(ctx).Save(); err != nil {
		return fmt.Errorf("add %d backlite tasks: %w", len(batch), err)
	}
	return nil
}

func (b *backliteArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	b.client.Register(backlite.NewQueue(func(_ context.Context, p Payload) error {
		h.Do(p.Index)
		return nil
	}))
	b.client.Start(ctx)
	return func(ctx context.Context) error {
		if !b.client.Stop(ctx) {
			return errors.New("stop backlite: its workers did not finish in time")
		}
		return nil
	}, nil
}

func (b *backliteArm) Left(ctx context.Context) (int, error) { return b.count(ctx, "backlite_tasks") }

func (b *backliteArm) Settings() string {
	return fmt.Sprintf(
		"mattn/go-sqlite3, synchronous=%s, 1 connection, %d workers, woken in process, appends a batch a call",
		plan.SQLiteSync, b.workers())
}
