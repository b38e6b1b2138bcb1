package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// rates compares the whole way with the bare loop, and with what the bare loop and the work-off make possible one after
// the other.
func rates(ctx context.Context, s *settings, name string) error {
	arms := []struct {
		name string
		run  func(context.Context, *settings, string) (float64, error)
	}{
		{"raw", func(ctx context.Context, s *settings, _ string) (float64, error) { return bulkLoop(ctx, s) }},
		{"work-off", workOff}, {"pawl", whole},
	}
	var toRaw, toPossible []float64
	for round := range s.rounds {
		rate := map[string]float64{}
		for i := range arms { // in an order that rotates
			a := arms[(i+round)%len(arms)]
			r, err := a.run(ctx, s, name)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			rate[a.name] = r
			fmt.Printf("%s, round %d  %-9s %8.0f rows/s\n", name, round+1, a.name, r)
		}
		possible := 1 / (1/rate["raw"] + 1/rate["work-off"])
		toRaw = append(toRaw, rate["pawl"]/rate["raw"])
		toPossible = append(toPossible, rate["pawl"]/possible)
		if s.rate == 0 {
			s.rate = rate["pawl"] / 4
		}
	}
	fmt.Printf("%s, pawl to raw: %s\n", name, meter.Spread(toRaw))
	fmt.Printf("%s, pawl to 1/(1/raw + 1/work-off): %s\n", name, meter.Spread(toPossible))
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
	w, err := dispatch.New(d.store, dispatch.Config{
		Topics: []dispatch.Topic{{Name: projection + "." + outboxStage, Batch: c, BatchSize: batch,
			Concurrency: parallel, Settings: store.Declaration{Name: projection + "." + outboxStage,
				Order: store.OrderNone}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-c.done:
	case err := <-ended:
		cancel()
		return 0, err
	}
	took := time.Since(began)
	cancel()
	if err := <-ended; err != nil && ctx.Err() == nil {
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
	defer u.stop()
	if err := d.insert(ctx, 0, s.rows); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := written(ctx, u.at, s.rows); err != nil {
		return 0, fmt.Errorf("%w: %s", err, u.log.String())
	}
	if err := searchable(ctx, u.at, s.rows); err != nil {
		return 0, err
	}
	took := time.Since(began)
	fmt.Printf("%s, CPU of pawl itself: %.1f µs a row\n", name, u.stop().Seconds()*1e6/float64(s.rows))
	return float64(s.rows) / took.Seconds(), nil
}

// upped is a running `pawl up`.
type upped struct {
	at   string // of the alias
	log  bytes.Buffer
	stop func() time.Duration // returns the CPU time of the process
}

// up starts `pawl up` as it comes: nothing is configured but where things are.
func (d *database) up(ctx context.Context, s *settings) (*upped, error) {
	alias := unique()
	u := &upped{at: s.search + "/" + alias}
	config := fmt.Sprintf("store: %q\nlisten: 127.0.0.1:0\npipelines:\n  %s: {kind: project, mapping: mapping.json,\n"+
		"    sink: {url: %q, index: %s}}\n", d.url, projection, s.search, alias)
	for file, text := range map[string]string{"pawl.yaml": config, "mapping.json": mapping} {
		if err := os.WriteFile(filepath.Join(d.dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	program, err := filepath.Abs(s.pawl)
	if err != nil {
		return nil, err
	}
	if found, err := exec.LookPath(s.pawl); err == nil {
		program, _ = filepath.Abs(found)
	}
	cmd := exec.CommandContext(ctx, program, "up")
	cmd.Dir, cmd.Stderr = d.dir, &u.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	u.stop = sync.OnceValue(func() time.Duration {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		remove(ctx, u.at+"-000001")
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ask(ctx, http.MethodGet, u.at+"/_count", "application/json", nil, nil)
		if err == nil {
			time.Sleep(time.Second) // it has looked at its alias, and waits
			return u, nil
		}
		if time.Now().After(end) {
			u.stop()
			return nil, fmt.Errorf("no alias within a minute: %w: %s", err, u.log.String())
		}
	}
}
