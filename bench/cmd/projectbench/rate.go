package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/beside"
	"github.com/pawl-dev/pawl/bench/internal/rounds"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// rates compares the whole way with the bare loop, and with what the bare loop and the work-off make possible one after
// the other.
func rates(ctx context.Context, s *settings, name string) error {
	arm := func(title string, run func(context.Context, *settings, string) (float64, error)) rounds.Arm {
		return rounds.Arm{Name: title, Measure: func(ctx context.Context) (float64, error) { return run(ctx, s, name) }}
	}
	rate, err := rounds.Measure(ctx, name, "rows/s", s.rounds,
		[]rounds.Arm{arm("raw", bulkLoop), arm("work-off", workOff), arm("pawl", whole)})
	if err != nil {
		return err
	}
	const possible = "1/(1/raw + 1/work-off)"
	for i := range rate["raw"] {
		rate[possible] = append(rate[possible], 1/(1/rate["raw"][i]+1/rate["work-off"][i]))
	}
	rate.Compare(name, "pawl", "raw")
	rate.Compare(name, "pawl", possible)
	if s.rate == 0 {
		s.rate = rate["pawl"][0] / 4
	}
	return nil
}

// counting ends when it has had so many.
type counting struct {
	left atomic.Int64
	done chan struct{}
}

// HandleBatch implements [pawl.BatchHandler].
func (c *counting) HandleBatch(_ context.Context, ds []*pawl.Delivery) []error {
	if c.left.Add(-int64(len(ds))) == 0 {
		close(c.done)
	}
	return make([]error, len(ds))
}

// workOff claims and settles the same rows, and does nothing with them.
func workOff(ctx context.Context, s *settings, name string) (float64, error) {
	d, err := newDatabase(ctx, s, name)
	if err != nil {
		return 0, err
	}
	defer d.close()
	if err := d.insert(ctx, 0, s.rows); err != nil {
		return 0, err
	}
	c := &counting{done: make(chan struct{})}
	c.left.Store(int64(s.rows))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	topic := projection + "." + outboxStage
	began := time.Now()
	stop, err := beside.Dispatcher(ctx, d.store, dispatch.Config{
		Topics: []dispatch.Topic{{Name: topic, Batch: c, BatchSize: batch, Concurrency: parallel,
			Settings: store.Declaration{Name: topic, Order: store.OrderNone}}},
		Logger: slog.New(slog.DiscardHandler),
	}, cancel)
	if err != nil {
		return 0, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	took := time.Since(began)
	if err := errors.Join(context.Cause(ctx), stop(ctx)); err != nil {
		return 0, err
	}
	return float64(s.rows) / took.Seconds(), nil
}

// whole inserts the rows in one transaction while `pawl up` waits for them; the clock runs from the commit.
func whole(ctx context.Context, s *settings, name string) (float64, error) {
	d, err := newDatabase(ctx, s, name)
	if err != nil {
		return 0, err
	}
	defer d.close()
	u, err := d.up(ctx, s)
	if err != nil {
		return 0, err
	}
	defer u.remove(ctx)
	if err := d.insert(ctx, 0, s.rows); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := written(ctx, u.at, s.rows); err != nil {
		return 0, fmt.Errorf("%w: %s", err, u.Said())
	}
	if err := searchable(ctx, u.at, s.rows); err != nil {
		return 0, err
	}
	took := time.Since(began)
	fmt.Printf("%s, CPU of pawl itself: %.1f µs a row\n", name, u.Stop().Seconds()*1e6/float64(s.rows))
	return float64(s.rows) / took.Seconds(), nil
}

// upped is a running `pawl up`.
type upped struct {
	*beside.Daemon
	at string // of the alias
}

// up starts `pawl up` as it comes: nothing is configured but where things are.
func (d *database) up(ctx context.Context, s *settings) (*upped, error) {
	alias := unique()
	config := fmt.Sprintf("store: %q\nlisten: 127.0.0.1:0\npipelines:\n  %s: {kind: project, mapping: mapping.json,\n"+
		"    sink: {url: %q, index: %s}}\n", d.url, projection, s.search, alias)
	daemon, err := beside.Up(s.pawl, d.dir, map[string]string{"pawl.yaml": config, "mapping.json": mapping})
	if err != nil {
		return nil, err
	}
	u := &upped{daemon, s.search + "/" + alias}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ask(ctx, http.MethodGet, u.at+"/_count", "application/json", nil, nil)
		if err == nil {
			time.Sleep(time.Second) // it has looked at its alias, and waits
			return u, nil
		}
		if time.Now().After(end) {
			u.remove(ctx)
			return nil, fmt.Errorf("no alias within a minute: %w: %s", err, u.Said())
		}
	}
}

// remove ends it, and takes its index away.
func (u *upped) remove(ctx context.Context) {
	u.Stop()
	remove(ctx, u.at+"-000001")
}
