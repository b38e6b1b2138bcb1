// Package arm is what is compared: Pawl and its peers behind one interface, so
// that every work is driven by the same code.
package arm

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Job is one piece of no-op work. Index counts from 0 within a run and is the
// only thing the handler reads.
type Job struct {
	Index int
	Key   []byte // nil: unordered; a peer without order ignores it
}

// Handler is told of what an arm executes, concurrently.
type Handler struct {
	Do     func(index int) // every execution of a job
	Count  func(n int)     // jobs of an arm that only counts them
	Failed func(error)     // an arm that cannot go on
}

// Arm is one system with its settings. Setup, then Open, then Append and Work
// as the work asks, then Close. Append and Left are safe for concurrent use.
type Arm interface {
	// Setup creates the schema, with connections of its own that it closes.
	Setup(ctx context.Context) error
	Open(ctx context.Context) error
	// Append stores jobs in one call of the system's fastest batch API, and
	// returns when they are durable.
	Append(ctx context.Context, jobs []Job) error
	// Work begins to execute; stop drains and returns when nothing runs.
	Work(ctx context.Context, handle Handler) (stop func(context.Context) error, err error)
	// Left counts the jobs that are not durably done.
	Left(ctx context.Context) (int, error)
	// Ordered reports whether keyed jobs are promised to run in order.
	Ordered() bool
	// Settings says in one line what was set: workers, batches, polling.
	Settings() string
	Close() error
}

// setUp opens an arm for as long as its schema is installed.
func setUp(ctx context.Context, a Arm, install func() error) error {
	if err := a.Open(ctx); err != nil {
		return err
	}
	err := install()
	if err != nil {
		err = fmt.Errorf("install the schema: %w", err)
	}
	return errors.Join(err, a.Close())
}

// New returns the arm of that name for a work. target is the URL of its own PostgreSQL database, the path of its SQLite
// file, or the addresses of brokers.
func New(name, target string, w plan.Work) (Arm, error) {
	switch {
	case plan.OnKafka(w.Suite):
		return newKafka(target, name, w), nil
	case w.Suite == plan.Postgres && name == plan.Pawl:
		return newPawlPostgres(target, w.Keys > 0), nil
	case w.Suite == plan.SQLite && name == plan.Pawl:
		return newPawlSQLite(target, w.Keys > 0), nil
	case name == plan.River, name == plan.RiverInsertMany, name == plan.RiverDefaults:
		return &riverArm{name: name, dsn: target}, nil
	case name == plan.Goqite, name == plan.GoqiteDefaults:
		return &goqiteArm{sqliteArm: sqliteArm{name: name, path: target}}, nil
	case name == plan.Backlite, name == plan.BackliteDefaults:
		return &backliteArm{sqliteArm: sqliteArm{name: name, path: target}}, nil
	}
	return nil, fmt.Errorf("suite %s has no arm %q", w.Suite, name)
}
