package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/arm"
)

// track notes which jobs were executed, when, and in which order per key.
type track struct {
	epoch    time.Time
	runs     []atomic.Int32 // executions by index
	appended []time.Duration
	started  []time.Duration // of the first execution; nil: nobody asks
	handled  atomic.Int64    // jobs executed at least once
	repeated atomic.Int64
	want     int64
	done     chan struct{}
	failed   chan error // of an arm that cannot go on

	began, ended atomic.Int64 // of the first job and the last, after epoch

	keyOf func(int) int
	last  []atomic.Int64 // by key: 1 + the highest index executed
	wrong atomic.Int64   // executed after a later job of its key
}

// newTrack follows n jobs; keys is 0 for unordered ones.
func newTrack(n, keys int, keyOf func(int) int) *track {
	return &track{
		epoch: time.Now(), runs: make([]atomic.Int32, n), want: int64(n), done: make(chan struct{}), failed: make(chan error, 1),
		keyOf: keyOf, last: make([]atomic.Int64, keys),
	}
}

// timing notes when each job was appended and started.
func (t *track) timing() *track {
	t.appended, t.started = make([]time.Duration, len(t.runs)), make([]time.Duration, len(t.runs))
	return t
}

// handler is the arm's handler.
func (t *track) handler() arm.Handler {
	return arm.Handler{Do: t.handle, Count: t.count, Failed: func(err error) {
		select {
		case t.failed <- err:
		default:
		}
	}}
}

// begins notes that a job begins.
func (t *track) begins() {
	if t.began.Load() == 0 {
		t.began.CompareAndSwap(0, int64(time.Since(t.epoch)))
	}
}

func (t *track) handle(index int) {
	t.begins()
	if t.runs[index].Add(1) > 1 {
		t.repeated.Add(1)
		return
	}
	if t.started != nil {
		t.started[index] = time.Since(t.epoch)
	}
	if len(t.last) > 0 {
		if before := t.last[t.keyOf(index)].Swap(int64(index + 1)); before > int64(index+1) {
			t.wrong.Add(1)
		}
	}
	t.count(1)
}

// count counts jobs, and notes when the last one was executed.
func (t *track) count(n int) {
	t.begins()
	if now := t.handled.Add(int64(n)); now >= t.want && now-int64(n) < t.want {
		t.ended.Store(int64(time.Since(t.epoch)))
		close(t.done)
	}
}

// stamp notes that the append of [from, to) has returned.
func (t *track) stamp(from, to int) {
	now := time.Since(t.epoch)
	for i := from; i < to; i++ {
		t.appended[i] = now
	}
}

// wait returns when every job was executed.
func (t *track) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case err := <-t.failed:
		return fmt.Errorf("%d of %d jobs executed: %w", t.handled.Load(), t.want, err)
	case <-ctx.Done():
		return fmt.Errorf("%d of %d jobs executed: %w", t.handled.Load(), t.want, context.Cause(ctx))
	}
}

// pickups are the times from append returned to handler started, from job first on. A handler that started before its
// append returned counts as zero. All jobs were executed and all appends have returned.
func (t *track) pickups(first int) []time.Duration {
	waits := make([]time.Duration, 0, len(t.runs)-first)
	for i := first; i < len(t.runs); i++ {
		waits = append(waits, max(0, t.started[i]-t.appended[i]))
	}
	return waits
}

// check reports what must never happen. ordered says whether the arm promises
// order per key.
func (t *track) check(ordered bool) error {
	var errs []error
	if lost := t.want - t.handled.Load(); lost != 0 {
		errs = append(errs, fmt.Errorf("%d of %d jobs were never executed", lost, t.want))
	}
	if wrong := t.wrong.Load(); ordered && wrong > 0 {
		errs = append(errs, fmt.Errorf("%d jobs were executed after a later one of their key", wrong))
	}
	return errors.Join(errs...)
}
