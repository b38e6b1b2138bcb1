package cron

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Times are the instants at which a schedule fires. Make them with [Cron] or [Every].
type Times struct {
	expr  *expression
	every int64 // seconds
	zone  *time.Location
}

// years is within how long a schedule has to fire.
const years = 8

// Cron returns the times of an expression in a zone; an empty zone is UTC.
func Cron(expr, zone string) (*Times, error) {
	e, err := parseExpression(expr)
	l, noZone := loadZone(zone)
	if err != nil || noZone != nil {
		return nil, errors.Join(err, noZone)
	}
	return &Times{expr: e, zone: l}, nil
}

// Every returns the times that are a multiple of d after 1970-01-01T00:00Z, in a zone.
func Every(d time.Duration, zone string) (*Times, error) {
	l, err := loadZone(zone)
	if d < time.Second || d%time.Second != 0 || d > years*366*24*time.Hour {
		err = errors.Join(err, pawl.Invalid("every", "is %v; it goes from 1s to %d years, in whole seconds", d, years))
		return nil, err
	}
	return &Times{every: int64(d / time.Second), zone: l}, err
}

// loadZone finds a zone by its name in the database of zones. What depends on the machine is no name.
func loadZone(name string) (*time.Location, error) {
	if strings.EqualFold(name, "local") || name == "localtime" || name == "posixrules" ||
		strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") {
		return nil, pawl.Invalid("zone",
			"is %q, which differs from machine to machine; name one, such as Europe/Berlin", name)
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, pawl.Invalid("zone", "is %q, which is no zone; name one, such as Europe/Berlin", name)
	}
	return l, nil
}

// Fires reports, as an error, that nothing fires within eight years after a time.
func (t *Times) Fires(after time.Time) error {
	next := t.Next(after)
	if next.IsZero() || next.After(after.AddDate(years, 0, 1)) {
		return pawl.Invalid("cron", "never fires within %d years", years)
	}
	return nil
}

// Next returns the first tick after an instant, in the zone of the schedule; zero if there is none.
func (t *Times) Next(after time.Time) time.Time {
	from, at, ok := after.Unix(), int64(0), true
	switch {
	case t.every > 0:
		n := from / t.every
		if from < 0 && from%t.every != 0 {
			n--
		}
		at = (n + 1) * t.every
	case t.expr.elapsed:
		at, ok = t.nextElapsed(from)
	default:
		if at, ok = t.expr.next(t.reached(from)); ok {
			at = t.reaches(at)
		}
	}
	if !ok {
		return time.Time{}
	}
	return time.Unix(at, 0).In(t.zone)
}

// period is a time in which the wall clock of a zone does not jump, in Unix seconds.
type period struct{ from, until, offset int64 }

// The ends of a period that has none, and the seconds of a day.
const (
	day    = 24 * 3600
	always = -1 << 60
	never  = 1 << 60
)

// period returns the one of an instant.
func (t *Times) period(at int64) period {
	moment := time.Unix(at, 0).In(t.zone)
	_, offset := moment.Zone()
	p := period{always, never, int64(offset)}
	from, until := moment.ZoneBounds()
	if !from.IsZero() {
		p.from = from.Unix()
	}
	if !until.IsZero() {
		p.until = until.Unix()
	}
	if p.until <= at { // on the last day of a leap year package time says that the period ended the day before
		p.until = at - at%day + day
	}
	return p
}

// furthest is beyond every offset that a zone ever had, in seconds.
const furthest = 16 * 3600

// nextElapsed returns the first instant after one whose wall clock matches.
func (t *Times) nextElapsed(after int64) (int64, bool) {
	for at := after + 1; at < after+horizon*day; {
		p := t.period(at)
		wall, ok := t.expr.next(at + p.offset - 1)
		if ok && wall-p.offset < p.until {
			return wall - p.offset, true
		}
		at = p.until // the next period may repeat what this one has shown
	}
	return 0, false
}

// reached returns the latest time that the wall clock has shown until an instant.
func (t *Times) reached(at int64) int64 {
	p := t.period(at)
	wall := at + p.offset
	for p.from > at-2*furthest {
		last := p.from - 1
		p = t.period(last)
		wall = max(wall, last+p.offset)
	}
	return wall
}

// reaches returns the first instant at which the wall clock shows a time, or a later one.
func (t *Times) reaches(wall int64) int64 {
	p := t.period(wall - furthest)
	for wall-p.offset >= p.until {
		p = t.period(p.until)
	}
	return max(p.from, wall-p.offset)
}
