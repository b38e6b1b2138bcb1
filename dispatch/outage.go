package dispatch

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// outage is a time in which calls of the store fail. It is logged when it
// begins and when it ends, not call by call.
type outage struct {
	mu     sync.Mutex
	failed map[string]error // by operation: the error of the last call, if it failed
	since  time.Time
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// backoff is the pause before a call is tried again, with jitter.
func (o *outage) backoff(try int, random func() float64) time.Duration {
	ceiling := min(firstPause<<min(try, 10), maxPause)
	return ceiling/2 + time.Duration(random()*float64(ceiling/2))
}

// note takes the outcome of a call. It returns how long the outage that it ends
// was, and whether one begins.
func (o *outage) note(op string, err error) (ended time.Duration, begins bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.failed)
	if err == nil {
		if before == 0 {
			return 0, false
		}
		delete(o.failed, op)
		if len(o.failed) == 0 {
			return max(time.Since(o.since), 1), false
		}
		return 0, false
	}
	if o.failed == nil {
		o.failed = map[string]error{}
	}
	o.failed[op] = err
	if before == 0 {
		o.since = time.Now()
	}
	return 0, before == 0
}

// lasting returns for how long calls have been failing now, and one error.
func (o *outage) lasting() (time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.failed {
		return time.Since(o.since), err
	}
	return 0, nil
}

// called takes note of a call of the store.
func (d *Dispatcher) called(op string, began time.Time, items int, err error) {
	if o := d.cfg.Observer; o != nil {
		o.StoreCall(op, time.Since(began), items, err)
	}
	if err != nil && d.io.Err() != nil {
		return // our own end is no outage
	}
	ended, begins := d.outage.note(op, err)
	switch {
	case begins:
		attrs := []any{slog.String("operation", op), slog.Any("error", err)}
		if e, ok := errors.AsType[*store.Error](err); ok && e.Hint != "" {
			attrs = append(attrs, slog.String("hint", e.Hint))
		}
		d.cfg.Logger.Error("store fails; trying again", attrs...)
	case ended > 0:
		d.cfg.Logger.Info("store is back", slog.Duration("after", ended))
	}
}

// sleep waits; false if the dispatcher ended meanwhile.
func (d *Dispatcher) sleep(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.stop:
		return false
	}
}
