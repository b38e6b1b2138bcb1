package cron

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// maxBackfill is how many ticks one backfill has at most.
const maxBackfill = 100_000

// Gaps returns the ticks from since until before until that are due and have no message on record.
func (s *Scheduler) Gaps(ctx context.Context, name string, since, until time.Time) ([]time.Time, error) {
	if !since.Before(until) {
		return nil, pawl.Invalid("until", "is not after since")
	}
	l, err := s.get(ctx, name)
	if err != nil {
		return nil, err
	}
	now, err := s.entries.Clock(ctx)
	if err != nil {
		return nil, err
	}
	sent := map[int64]bool{}
	for r, err := range s.Past(ctx, name) {
		if err != nil {
			return nil, err
		}
		if r.MessageID != "" && r.Action != ActionManual && r.Action != ActionReplaced {
			sent[r.Tick.Unix()] = true
		}
	}
	ticks := []time.Time{}
	end := until
	if now.Before(end) {
		end = now.Add(time.Nanosecond)
	}
	for at := l.times.Next(since.Add(-time.Nanosecond)); !at.IsZero() && at.Before(end); at = l.times.Next(at) {
		if sent[at.Unix()] {
			continue
		}
		if ticks = append(ticks, at); len(ticks) > maxBackfill {
			return nil, pawl.Invalid("since", "is more than %d ticks before until; use several backfills", maxBackfill)
		}
	}
	return ticks, nil
}

// Backfill sends the messages of ticks, at a rate a second if it is above 0, and returns those that it sent. It moves
// no schedule, and does not mind a pause. A tick that has a message already is left out.
func (s *Scheduler) Backfill(ctx context.Context, name string, ticks []time.Time, rate float64) ([]time.Time, error) {
	l, err := s.get(ctx, name)
	if err != nil {
		return nil, err
	}
	now, err := s.entries.Clock(ctx)
	if err != nil {
		return nil, err
	}
	began, done, rows := time.Now(), []time.Time{}, []row{}
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := s.addRows(context.WithoutCancel(ctx), name, rows...)
		rows = nil
		return err
	}
	for _, tick := range ticks {
		m := l.def.message(l.times, tick.In(l.times.zone))
		m.Delay = 0
		there, err := s.append(ctx, m)
		if err != nil {
			return done, errors.Join(err, flush())
		}
		if !there {
			done = append(done, tick)
			at := now.Add(time.Since(began)).UnixMilli()
			rows = append(rows, row{Tick: tick.Unix(), At: at, Action: ActionBackfill})
		}
		if len(rows) >= chunk || rate > 0 {
			if err := flush(); err != nil {
				return done, err
			}
		}
		if rate > 0 {
			if err := store.Sleep(ctx, time.Duration(float64(time.Second)/rate)); err != nil {
				return done, err
			}
		}
	}
	return done, flush()
}
