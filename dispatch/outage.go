package dispatch

import (
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// outage is a period in which calls of the store fail. It is logged when it begins, at
// intervals, and when it ends, not for each call.
type outage struct {
	mu     sync.Mutex
	failed map[string]failure // by operation: of those whose last call failed
	since  time.Time
	said   time.Time // when it was last logged
}

// remindEvery is how often a continuing outage is logged.
const remindEvery = time.Minute

type failure struct {
	err error
	at  time.Time
}

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// backoff is the pause before a call is tried again, with jitter.
func (o *outage) backoff(try int, random func() float64) time.Duration {
	ceiling := store.Doubled(firstPause, maxPause, try)
	return ceiling/2 + time.Duration(random()*float64(ceiling/2))
}

// note takes the outcome of a call. It returns how long the outage that it ends
// was, and whether one is to be logged. A success also ends the failure of another
// operation that nobody has tried again meanwhile.
func (o *outage) note(op string, err error) (ended time.Duration, tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, before := time.Now(), len(o.failed)
	if err != nil {
		if before == 0 {
			o.failed, o.since = map[string]failure{}, now
		}
		o.failed[op] = failure{err, now}
		if tell = before == 0 || now.Sub(o.said) >= remindEvery; tell {
			o.said = now
		}
		return 0, tell
	}
	if before == 0 {
		return 0, false
	}
	delete(o.failed, op)
	for other, f := range o.failed {
		if now.Sub(f.at) > maxPause+time.Second {
			delete(o.failed, other)
		}
	}
	if len(o.failed) == 0 {
		return max(now.Sub(o.since), 1), false
	}
	return 0, false
}

// lasting returns for how long calls have been failing now, and one error.
func (o *outage) lasting() (time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.failed {
		return time.Since(o.since), f.err
	}
	return 0, nil
}

// asked reports a call of the store, whose failure is not an outage by itself.
func (d *claimer) asked(op string, began time.Time, items int, err error) {
	if o := d.cfg.Observer; o != nil {
		o.StoreCall(op, time.Since(began), items, err)
	}
}

// called takes note of a call of the store.
func (d *claimer) called(op string, began time.Time, items int, err error) {
	d.asked(op, began, items, err)
	if err != nil && d.io.Err() != nil {
		return // ending the dispatcher itself is not an outage
	}
	ended, tell := d.outage.note(op, err)
	switch {
	case tell:
		lasting, _ := d.outage.lasting()
		attrs := []any{slog.String("operation", op), slog.Any("error", err),
			slog.Duration("for", lasting.Round(time.Second))}
		if hint := store.Hint(err); hint != "" {
			attrs = append(attrs, slog.String("hint", hint))
		}
		d.cfg.Logger.Error("store fails; trying again", attrs...)
	case ended > 0:
		d.cfg.Logger.Info("store is back", slog.Duration("after", ended))
	}
}
