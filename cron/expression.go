package cron

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// expression matches a wall clock. Sets are bits by value.
type expression struct {
	second, minute, hour, month uint64
	day                         days
	weekday                     weekdays
	both                        bool // day and weekday must match, not only one of them
	elapsed                     bool // by elapsed time, not fixed times
}

// days are days of the month.
type days struct {
	set     uint64
	last    uint64 // of the bit n: n days before the last one
	near    uint64 // the working day nearest to the n-th
	lastOne bool   // the last working day
}

// weekdays are days of the week.
type weekdays struct {
	set  uint64
	last uint64    // the last such day of the month
	nth  [6]uint64 // the n-th one of the month
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// field says what one field takes.
type field struct {
	name     string
	min, max int
	names    string // three letters each, from min on
	step     int    // the largest
}

var (
	secondField  = field{"second", 0, 59, "", 59}
	minuteField  = field{"minute", 0, 59, "", 59}
	hourField    = field{"hour", 0, 23, "", 23}
	dayField     = field{"day", 1, 31, "", 31}
	monthField   = field{"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", 12}
	weekdayField = field{"weekday", 0, 6, "SUNMONTUEWEDTHUFRISAT", 7}
)

// parseExpression reads a cron expression.
func parseExpression(text string) (*expression, error) {
	text = strings.TrimSpace(text)
	parts := strings.Fields(strings.ToUpper(text))
	if len(parts) > 0 && parts[0][0] == '@' {
		full, ok := macros[strings.ToLower(text)]
		if !ok {
			return nil, pawl.Invalid("cron", "has %q; there are @yearly, @monthly, @weekly, @daily and @hourly", text)
		}
		parts = strings.Fields(full)
	}
	if len(parts) > 0 && (strings.HasPrefix(parts[0], "TZ=") || strings.HasPrefix(parts[0], "CRON_TZ=")) {
		return nil, pawl.Invalid("cron", "begins with %q; the zone is a setting of its own", parts[0])
	}
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 6 {
		return nil, pawl.Invalid("cron", "has %d fields; it takes 5, or 6 with seconds first", len(parts))
	}
	e := &expression{
		both:    parts[3][0] == '*' || parts[5][0] == '*',
		elapsed: strings.ContainsAny(parts[1]+parts[2], "*/"),
	}
	for i, f := range []struct {
		field
		add func(field, string) error
	}{
		{secondField, into(&e.second)}, {minuteField, into(&e.minute)}, {hourField, into(&e.hour)},
		{dayField, e.day.add}, {monthField, into(&e.month)}, {weekdayField, e.weekday.add},
	} {
		for item := range strings.SplitSeq(parts[i], ",") {
			if err := f.add(f.field, item); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

func into(set *uint64) func(field, string) error {
	return func(f field, item string) error {
		found, err := f.items(item)
		*set |= found
		return err
	}
}

// items reads a value, a range, or one of them with a step.
func (f field) items(item string) (uint64, error) {
	span, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := number(stepText)
		if !ok || n == 0 || n > f.step {
			return 0, pawl.Invalid("cron", "has the step %q in its %s; steps go from 1 to %d", stepText, f.name, f.step)
		}
		step = n
	}
	from, to := f.min, f.max
	if span != "*" {
		first, last, ranged := strings.Cut(span, "-")
		var err error
		if from, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = f.value(last); err != nil {
				return 0, err
			}
		case !stepped:
			to = from
		}
	}
	size := f.max - f.min + 1
	if to < from {
		to += size
	}
	var set uint64
	for v := from; v <= to; v += step {
		set |= 1 << (f.min + (v-f.min)%size)
	}
	return set, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if n, ok := number(text); ok && n >= f.min && (n <= f.max || n == 7 && f.name == weekdayField.name) {
		return n, nil
	}
	if at := strings.Index(f.names, text); len(text) == 3 && at >= 0 && at%3 == 0 {
		return f.min + at/3, nil
	}
	return 0, pawl.Invalid("cron", "has %q for its %s, which goes from %d to %d", text, f.name, f.min, f.max)
}

// number reads up to two digits.
func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), err == nil && len(text) <= 2
}

// add reads an item of the days of the month.
func (d *days) add(f field, item string) error {
	before, ofLast := strings.CutPrefix(item, "L-")
	near, working := strings.CutSuffix(item, "W")
	switch {
	case item == "L":
		d.last |= 1
	case item == "LW":
		d.lastOne = true
	case ofLast:
		n, ok := number(before)
		if !ok || n > 30 {
			return pawl.Invalid("cron", "has %q for its day; L-n goes from L-0 to L-30", item)
		}
		d.last |= 1 << n
	case working:
		n, err := f.value(near)
		d.near |= 1 << n
		return err
	default:
		set, err := f.items(item)
		d.set |= set
		return err
	}
	return nil
}

// add reads an item of the days of the week.
func (w *weekdays) add(f field, item string) error {
	name, nth, counted := strings.Cut(item, "#")
	name, last := strings.CutSuffix(name, "L")
	if !last && !counted {
		set, err := f.items(item)
		w.set |= set
		return err
	}
	v, err := f.value(name)
	if err != nil {
		return err
	}
	n, ok := number(nth)
	switch {
	case last && counted, counted && (!ok || n < 1 || n > 5):
		return pawl.Invalid("cron", "has %q for its weekday; FRI#n goes from FRI#1 to FRI#5", item)
	case last:
		w.last |= 1 << (v % 7)
	default:
		w.nth[n] |= 1 << (v % 7)
	}
	return nil
}

func has(set uint64, bit int) bool { return bit >= 0 && set>>bit&1 != 0 }

// matches reports whether the day of the month matches, in a month of that length.
func (d *days) matches(day, length int, weekday time.Weekday) bool {
	if has(d.set, day) || has(d.last, length-day) {
		return true
	}
	if weekday == time.Saturday || weekday == time.Sunday {
		return false
	}
	if has(d.near, day) || d.lastOne && (day == length || weekday == time.Friday && day+2 >= length) {
		return true
	}
	switch weekday { // a weekend moves to the nearest working day of the same month
	case time.Monday:
		return has(d.near, day-1) && day > 1 || day == 3 && has(d.near, 1)
	case time.Friday:
		return has(d.near, day+1) && day < length || day == length-2 && has(d.near, length)
	}
	return false
}

// matches reports whether the day of the week matches.
func (w *weekdays) matches(day, length int, weekday time.Weekday) bool {
	d := int(weekday)
	return has(w.set, d) || has(w.last, d) && day+7 > length || has(w.nth[(day-1)/7+1], d)
}

// onDay reports whether the expression matches a day.
func (e *expression) onDay(year int, month time.Month, day int) bool {
	if !has(e.month, int(month)) {
		return false
	}
	weekday := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
	length := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	byDay, byWeekday := e.day.matches(day, length, weekday), e.weekday.matches(day, length, weekday)
	if e.both {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// horizon is for how many days a match is looked for: within it, 29 February falls on each day of the week.
const horizon = 41 * 366

// next returns the first match after a time of a wall clock, both in seconds as if the wall were in UTC.
func (e *expression) next(wall int64) (int64, bool) {
	t := time.Unix(wall+1, 0).UTC()
	for range horizon {
		year, month, day := t.Date()
		if !has(e.month, int(month)) {
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if e.onDay(year, month, day) {
			if h, m, s, ok := e.from(t.Clock()); ok {
				return time.Date(year, month, day, h, m, s, 0, time.UTC).Unix(), true
			}
		}
		t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	}
	return 0, false
}

// from returns the first match of a day at or after a time of it.
func (e *expression) from(h, m, s int) (hour, minute, second int, ok bool) {
	least := func(set uint64, from int) int { // 64: there is none
		return bits.TrailingZeros64(set >> from << from)
	}
	hour, minute, second = least(e.hour, h), least(e.minute, m), least(e.second, s)
	switch {
	case hour == h && minute == m && second < 64:
		return hour, minute, second, true
	case hour == h && least(e.minute, m+1) < 64:
		return hour, least(e.minute, m+1), least(e.second, 0), true
	case hour == h:
		hour = least(e.hour, h+1)
	}
	return hour, least(e.minute, 0), least(e.second, 0), hour < 64
}
