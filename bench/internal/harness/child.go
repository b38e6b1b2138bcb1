// Package harness runs arms side by side: the parent creates a database, starts
// the arm as a child process, so that CPU and memory are the arm's alone, and
// collects its result.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/kafka"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/report"
	"github.com/pawl-dev/pawl/bench/internal/work"
)

// Task is what a child is told: one arm, one work, one round.
type Task struct {
	Suite    string     `json:"suite"`
	Work     string     `json:"work"`
	Arm      string     `json:"arm"`
	Round    int        `json:"round"`
	Scale    plan.Scale `json:"scale"`
	Target   string     `json:"target"`   // the arm's database: URL, or path; addresses of brokers
	MeterDSN string     `json:"meter"`    // empty: no server
	Database string     `json:"database"` // name of the arm's database on the server
	Jars     string     `json:"jars"`     // of Parallel Consumer
	Profile  string     `json:"profile"`  // folder of CPU and heap profiles; empty: none
}

// Child reads a task, does it and writes its line.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	var t Task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	end, err := t.profile()
	if err != nil {
		return err
	}
	l, err := t.do(ctx)
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(l); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// profile writes where this process spends its CPU, and what it allocates, until
// the returned function is called.
func (t *Task) profile() (end func() error, err error) {
	if t.Profile == "" {
		return func() error { return nil }, nil
	}
	name := fmt.Sprintf("%s-%s-%s-%d", t.Suite, t.Work, t.Arm, t.Round)
	cpu, err := os.Create(filepath.Join(t.Profile, name+".cpu.prof"))
	if err != nil {
		return nil, fmt.Errorf("create a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("start a profile: %w", err), cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(filepath.Join(t.Profile, name+".heap.prof"))
		if err != nil {
			return errors.Join(fmt.Errorf("create a profile: %w", err), cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close(), cpu.Close())
	}, nil
}

// runner is one arm's round.
type runner interface {
	Do(context.Context) (work.Outcome, error)
	Settings() string
}

func (t *Task) do(ctx context.Context) (_ *report.Line, err error) {
	w, err := plan.Find(t.Scale, t.Suite, t.Work, t.Arm)
	if err != nil {
		return nil, err
	}
	var r runner
	if t.Arm == plan.ParallelConsumer {
		r = &kafka.Parallel{Addresses: t.Target, Jars: t.Jars, Work: w}
	} else {
		one, done, failed := t.run(ctx, w)
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, done()) }()
		r = one
	}
	o, err := r.Do(ctx)
	if err != nil {
		return nil, err
	}
	l := &report.Line{
		Suite: t.Suite, Work: t.Work, Arm: t.Arm, Round: t.Round, Scale: string(t.Scale), Settings: r.Settings(),
		At: time.Now().UTC(), Outcome: o,
	}
	return l, nil
}

// run is the round of an arm that is driven from here.
func (t *Task) run(ctx context.Context, w plan.Work) (r *work.Run, done func() error, err error) {
	a, err := arm.New(t.Arm, t.Target, w)
	if err != nil {
		return nil, nil, err
	}
	r = &work.Run{Arm: a, Meter: &meter.Meter{Account: w.Account}, Work: w, Round: t.Round}
	if w.Kind == plan.Consume {
		r.Round = 0 // that of what was written
	}
	if t.MeterDSN == "" {
		return r, func() error { return nil }, nil
	}
	s, err := meter.OpenServer(ctx, t.MeterDSN, t.Database)
	if err != nil {
		return nil, nil, err
	}
	r.Meter.Server = s
	r.Tidy = func(ctx context.Context) error {
		if err := run(ctx, t.Target, `VACUUM ANALYZE`); err != nil {
			return fmt.Errorf("vacuum: %w", err)
		}
		return s.Checkpoint(ctx)
	}
	r.Pin = t.pin
	return r, func() error { return s.Close(context.WithoutCancel(ctx)) }, nil
}

// pin holds a snapshot in the arm's database, as a long report or a dump does:
// no version that is deleted meanwhile can be vacuumed.
func (t *Task) pin(ctx context.Context) (func() error, error) {
	conn, err := pgx.Connect(ctx, t.Target)
	if err != nil {
		return nil, fmt.Errorf("connect the pinned reader: %w", err)
	}
	const begin = `BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class`
	if _, err := conn.Exec(ctx, begin); err != nil {
		return nil, errors.Join(fmt.Errorf("pin a snapshot: %w", err), conn.Close(ctx))
	}
	return func() error { return conn.Close(context.WithoutCancel(ctx)) }, nil
}
