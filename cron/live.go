package cron

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// live is a schedule as a scheduler knows it.
type live struct {
	def       stored
	times     *Times    // nil: there is no such schedule
	since     time.Time // when it was written
	outside   pause
	record    record
	version   int64 // of the record
	loaded    bool
	next      time.Time // zero: to be found out
	defAt     int64     // the versions of def and outside
	outsideAt int64
	due       time.Time // the first tick that could not be dealt with; zero: none
}

func (l *live) paused() bool { return l.def.Paused || l.outside.Paused }

// of is what the cursor of the record counts in.
func (l *live) of() string {
	if l.paused() {
		return "paused"
	}
	return fmt.Sprintf("%s|%v|%s|%d", l.def.Cron, l.def.Every, l.def.Zone, l.def.Created)
}

// dealtWith is the time up to which no tick is due: ticks of other times, and those of a pause, are left out. Where
// that is more than a day ahead, the store's clock was wrong when it was written, and says nothing of what is to come.
func (l *live) dealtWith(now time.Time) time.Time {
	cursor := l.record.Cursor
	if l.record.Of != l.of() || l.outside.At > cursor {
		cursor = max(cursor, l.since.Unix(), l.outside.At)
	}
	if cursor > now.Unix()+day {
		return now
	}
	return time.Unix(cursor, 0)
}

// take takes what an entry says of the schedule. What cannot be read is no schedule.
func (l *live) take(e store.Entry) {
	if l.defAt == e.Version && e.Version > 0 {
		return
	}
	l.defAt = e.Version
	l.def, l.times, l.next, l.since = stored{}, nil, time.Time{}, e.At
	if len(e.Value) > 0 && json.Unmarshal(e.Value, &l.def) == nil {
		l.times, _ = l.def.Times() // nil with an error
	}
}

func (l *live) takePause(e store.Entry) {
	if l.outsideAt == e.Version {
		return
	}
	l.outsideAt = e.Version
	l.outside, l.next = pause{}, time.Time{}
	_ = json.Unmarshal(e.Value, &l.outside) // what cannot be read is no pause
}

func (l *live) takeRecord(e store.Entry) {
	l.record, l.version, l.loaded, l.next = record{}, e.Version, true, time.Time{}
	_ = json.Unmarshal(e.Value, &l.record) // what cannot be read begins again
}

func (l *live) status(now time.Time) Status {
	status := Status{Schedule: l.def.Schedule, Missed: l.record.Missed}
	if status.Paused = l.paused(); !status.Paused {
		status.Next = l.times.Next(now)
		switch due := l.times.Next(l.dealtWith(now)); {
		case due.IsZero():
		case due.Before(now):
			status.Overdue = now.Sub(due)
		default: // later than the next tick, if the store's clock was set back
			status.Next = due
		}
	}
	for _, w := range slices.Backward(l.record.Rows) {
		if w.Action != ActionBackfill {
			last := w.run(l.def.Name, l.times.zone)
			status.LastTick, status.LastAt, status.LastID = last.Tick, last.At, last.MessageID
			break
		}
	}
	return status
}
