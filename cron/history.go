package cron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// What became of a tick.
const (
	ActionFired    = "fired"
	ActionMadeUp   = "made_up"  // late, because there was no scheduler
	ActionMissed   = "missed"   // there was no scheduler
	ActionSkipped  = "skipped"  // the message before was unresolved
	ActionReplaced = "replaced" // its message was cancelled for the next one
	ActionManual   = "manual"
	ActionBackfill = "backfill"
	ActionNone     = "none" // it has no row: only [Scheduler.Explain] says so
)

// How much history is kept.
const (
	chunk      = 100 // rows of a part
	keepChunks = 10
	keepFor    = 30 * 24 * time.Hour
)

// row is what became of a tick.
type row struct {
	Tick   int64  `json:"t"`
	At     int64  `json:"f"` // Unix milliseconds
	Action string `json:"a"`
	Why    string `json:"w,omitempty"`
	ID     string `json:"i,omitempty"` // of the message, if it does not follow from the tick
	Was    string `json:"x,omitempty"` // the action before it was replaced
}

// record is where a schedule stands. Its newest rows are in it, so that both are written in one step.
type record struct {
	Of     string `json:"of"`     // the times that Cursor counts in
	Cursor int64  `json:"cursor"` // the latest tick that is dealt with
	Last   int64  `json:"last"`   // the latest tick with a message
	Missed int64  `json:"missed"`
	Zone   string `json:"zone,omitempty"` // of the schedule, for when it is removed
	Rows   []row  `json:"rows"`
	Parts  int    `json:"parts"` // of older rows that were written, and from which on they are kept
	Kept   int    `json:"kept"`
}

func (r *record) add(w row) {
	r.Rows = append(r.Rows, w)
	if w.Action == ActionMissed {
		r.Missed++
	}
}

func partKey(name string, n int) string { return fmt.Sprintf("%s%s/%08d", pastPrefix, name, n) }

// save writes the record, after parts of older rows. A part that was written twice says the same.
func (s *Scheduler) save(ctx context.Context, l *live) error {
	for len(l.record.Rows) >= 2*chunk {
		text, err := json.Marshal(l.record.Rows[:chunk])
		if err != nil {
			return err
		}
		key := partKey(l.def.Name, l.record.Parts)
		if _, err := s.entries.PutState(ctx, key, text, store.AnyVersion, s.Owner); err != nil {
			return err
		}
		l.record.Rows = slices.Clone(l.record.Rows[chunk:])
		l.record.Parts++
	}
	if err := s.forget(ctx, l); err != nil {
		return err
	}
	l.record.Zone = l.def.Zone
	text, err := json.Marshal(l.record)
	if err != nil {
		return err
	}
	e, err := s.entries.PutState(ctx, runPrefix+l.def.Name, text, l.version, s.Owner)
	if err != nil {
		l.loaded = false
		return err
	}
	l.version = e.Version
	return nil
}

// forget removes the oldest part, if it is old enough.
func (s *Scheduler) forget(ctx context.Context, l *live) error {
	r := &l.record
	if r.Parts-r.Kept <= keepChunks || len(r.Rows) != chunk {
		return nil
	}
	e, err := s.entries.GetState(ctx, partKey(l.def.Name, r.Kept))
	if err == nil && e.At.UnixMilli() > r.Rows[len(r.Rows)-1].At-keepFor.Milliseconds() {
		return nil
	}
	if err == nil {
		err = s.entries.DeleteState(ctx, e.Key, store.AnyVersion)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	r.Kept++
	return nil
}

// Run is what became of a tick.
type Run struct {
	Tick      time.Time
	At        time.Time // when that was decided, and the message stored
	Action    string
	Why       string
	MessageID string // empty: it has none
}

// run is the row of a schedule, in its zone.
func (w row) run(name string, zone *time.Location) Run {
	run := Run{Tick: time.Unix(w.Tick, 0).In(zone), At: time.UnixMilli(w.At), Action: w.Action, Why: w.Why}
	switch w.Action {
	case ActionMissed, ActionSkipped:
	default:
		run.MessageID = cmp.Or(w.ID, messageID(name, w.Tick))
	}
	return run
}

// History returns what became of the ticks of a schedule, the newest first, also of one that was removed.
func (s *Scheduler) History(ctx context.Context, name string) ([]Run, error) {
	runs := []Run{}
	for r, err := range s.Past(ctx, name) {
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Past yields what [Scheduler.History] returns, and reads no more of it than the caller takes.
func (s *Scheduler) Past(ctx context.Context, name string) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		l := &live{def: stored{Schedule: Schedule{Name: name}}}
		err := s.load(ctx, l)
		if err == nil && l.version == 0 {
			_, err = s.get(ctx, name)
		}
		if err != nil {
			yield(Run{}, err)
			return
		}
		clock := s.zoneOf(ctx, name, l.record.Zone)
		all := func(rows []row) bool {
			for _, w := range slices.Backward(rows) {
				if !yield(w.run(name, clock), nil) {
					return false
				}
			}
			return true
		}
		if !all(l.record.Rows) {
			return
		}
		for e, err := range s.entries.LatestState(ctx, pastPrefix+name+"/", 0) {
			var part []row
			if err == nil && e.Key >= partKey(name, l.record.Parts) {
				continue // its rows are in the record still
			}
			if err == nil {
				err = json.Unmarshal(e.Value, &part)
			}
			if err != nil {
				yield(Run{}, err)
				return
			}
			if !all(part) {
				return
			}
		}
	}
}

// zoneOf is the zone of a schedule, or the one that it had.
func (s *Scheduler) zoneOf(ctx context.Context, name, had string) *time.Location {
	if known, err := s.get(ctx, name); err == nil {
		had = known.def.Zone
	}
	zone, err := loadZone(had)
	if err != nil {
		return time.UTC
	}
	return zone
}

// Explain says what became of a tick, and why; at the zero time of the last one. [store.ErrNotFound] if the schedule
// has no such tick.
func (s *Scheduler) Explain(ctx context.Context, name string, tick time.Time) (Run, error) {
	l, err := s.get(ctx, name)
	if err != nil {
		return Run{}, err
	}
	const clock = "15:04:05 MST"
	for r, err := range s.Past(ctx, name) {
		if err != nil {
			return Run{}, err
		}
		if !tick.IsZero() && !r.Tick.Equal(tick) {
			continue
		}
		if r.Why == "" {
			r.Why = fmt.Sprintf("due %s; %s at %s; missed: %s, overlap: %s", r.Tick.Format(clock), r.Action,
				r.At.In(l.times.zone).Format(clock), cmp.Or(l.def.Missed, MissedOnce),
				cmp.Or(l.def.Overlap, OverlapQueue))
		}
		return r, nil
	}
	if tick.IsZero() || !l.times.Next(tick.Add(-time.Nanosecond)).Equal(tick) {
		return Run{}, &store.Error{Op: "explain schedule " + name, Code: store.ErrNotFound,
			Err:  errors.New("it has no such tick"),
			Hint: "see its ticks: `pawl schedules history " + name + "`, `pawl schedules next " + name + "`"}
	}
	r := Run{Tick: tick.In(l.times.zone), Action: ActionNone, Why: fmt.Sprintf(
		"due %s; there is no record of it: the schedule was paused, had other times, or the record is no longer kept",
		tick.In(l.times.zone).Format(clock))}
	now, err := s.entries.Clock(ctx)
	switch {
	case tick.After(now) && l.paused():
		r.Why = fmt.Sprintf("due %s; the schedule is paused", r.Tick.Format(clock))
	case tick.After(now):
		r.Why = fmt.Sprintf("due %s; it is still to come", r.Tick.Format(clock))
	case tick.Before(l.since):
		r.Why = fmt.Sprintf("due %s; the schedule was written at %s", r.Tick.Format(clock),
			l.since.In(l.times.zone).Format(time.RFC3339))
	}
	return r, err
}
