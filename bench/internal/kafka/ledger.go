package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A record's body begins with the number of its key, and which one of its key
// it is, from 1 on.
const (
	keyAt, turnAt, padAt = 0, 4, 8
)

// ledger notes what was carried out. The clock runs from the first record to the
// last, so that nobody pays for joining a group.
type ledger struct {
	want     int64
	handled  atomic.Int64
	last     []atomic.Uint32 // by key: the turn of the last one
	repeated atomic.Int64
	wrong    atomic.Int64 // out of turn
	began    atomic.Int64 // ns since epoch
	ended    atomic.Int64
	epoch    time.Time
	done     chan struct{}
}

func newLedger(n, keys int) *ledger {
	return &ledger{want: int64(n), last: make([]atomic.Uint32, keys), epoch: time.Now(), done: make(chan struct{})}
}

// check looks at one record that was carried out. Of one key one at a time is.
func (l *ledger) check(body []byte) {
	key, turn := binary.BigEndian.Uint32(body[keyAt:]), binary.BigEndian.Uint32(body[turnAt:])
	switch before := l.last[key].Load(); {
	case turn == before+1:
		l.last[key].Store(turn)
	case turn <= before:
		l.repeated.Add(1)
	default:
		l.wrong.Add(1)
	}
}

// count counts records that were carried out, and stops the clock at the last.
func (l *ledger) count(n int) {
	now := l.handled.Add(int64(n))
	if now == int64(n) {
		l.began.CompareAndSwap(0, int64(time.Since(l.epoch)))
	}
	if now >= l.want && now-int64(n) < l.want {
		l.ended.Store(int64(time.Since(l.epoch)))
		close(l.done)
	}
}

// handle is a handler's work: after it took as long as it takes.
func (l *ledger) handle(body []byte, takes time.Duration, wait func(time.Duration)) {
	if takes > 0 {
		if l.began.Load() == 0 {
			l.began.CompareAndSwap(0, int64(time.Since(l.epoch)))
		}
		wait(takes)
	}
	l.check(body)
	l.count(1)
}

func (l *ledger) elapsed() time.Duration { return time.Duration(l.ended.Load() - l.began.Load()) }

// verdict reports what must never happen.
func (l *ledger) verdict() error {
	var errs []error
	if got := l.handled.Load() - l.repeated.Load(); got != l.want {
		errs = append(errs, fmt.Errorf("%d records instead of %d", got, l.want))
	}
	if wrong := l.wrong.Load(); wrong > 0 {
		errs = append(errs, fmt.Errorf("%d records out of the order of their key", wrong))
	}
	return errors.Join(errs...)
}
