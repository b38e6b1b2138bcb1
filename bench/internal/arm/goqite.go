package arm

import (
	"context"
	_ "embed" // the schema
	"fmt"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// goqiteSchema is goqite's own schema_sqlite.sql, which its module ships as a
// file to copy.
//
//go:embed goqite_schema.sql
var goqiteSchema string

const goqiteJob = "noop"

type goqiteArm struct {
	sqliteArm
	queue *goqite.Queue
}

func (g *goqiteArm) Setup(ctx context.Context) error {
	return setUp(ctx, g, func() error {
		_, err := g.db.ExecContext(ctx, goqiteSchema)
		return err
	})
}

func (g *goqiteArm) Open(context.Context) error {
	if err := g.open(); err != nil { // one connection: its README
		return err
	}
	g.queue = goqite.New(goqite.NewOpts{DB: g.db, Name: "bench"})
	return nil
}

// Append puts the batch into one transaction: goqite has no batch call.
func (g *goqiteArm) Append(ctx context.Context, batch []Job) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a goqite batch: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing to do after a commit
	for _, j := range batch {
		if _, err := jobs.CreateTx(ctx, tx, g.queue, goqiteJob, goqite.Message{Body: body(j.Index, plan.PayloadBytes)}); err != nil {
			return fmt.Errorf("create a goqite job: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit a goqite batch: %w", err)
	}
	return nil
}

func (g *goqiteArm) options() jobs.NewRunnerOpts {
	if g.name == plan.GoqiteDefaults {
		return jobs.NewRunnerOpts{Queue: g.queue}
	}
	return jobs.NewRunnerOpts{Queue: g.queue, Limit: plan.GoqiteLimit, PollInterval: plan.GoqitePoll}
}

func (g *goqiteArm) Work(ctx context.Context, h Handler) (func(context.Context) error, error) {
	runner := jobs.NewRunner(g.options())
	runner.Register(goqiteJob, func(_ context.Context, m []byte) error { return h.do(m) })
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runner.Start(ctx)
	}()
	return func(context.Context) error {
		cancel()
		<-done
		return nil
	}, nil
}

func (g *goqiteArm) Left(ctx context.Context) (int, error) { return g.count(ctx, "goqite") }

func (g *goqiteArm) Settings() string {
	limit, poll := "GOMAXPROCS at once", "poll 100ms"
	if o := g.options(); o.Limit > 0 {
		limit, poll = fmt.Sprintf("%d at once", o.Limit), fmt.Sprintf("poll %v", o.PollInterval)
	}
	return fmt.Sprintf("mattn/go-sqlite3, synchronous=%s, 1 connection, %s, %s, appends a transaction a batch",
		plan.SQLiteSync, limit, poll)
}
