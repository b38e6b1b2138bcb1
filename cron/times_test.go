package cron

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones everywhere
)

func mustCron(t testing.TB, expr, zone string) *Times {
	t.Helper()
	times, err := Cron(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// TestChangesOfClocks has what happens to a schedule when its zone changes the clock.
func TestChangesOfClocks(t *testing.T) {
	for _, c := range []struct{ zone, expr, after, want string }{
		// A gap of an hour.
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00-05:00",
			"2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{"America/New_York", "0,30 2,3 * * *", "2026-03-07T12:00:00-05:00",
			"2026-03-08T03:00:00-04:00 2026-03-08T03:30:00-04:00 2026-03-09T02:00:00-04:00"},
		{"America/New_York", "*/10 30 2 * * *", "2026-03-07T12:00:00-05:00",
			"2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{"America/New_York", "*/30 2 * * *", "2026-03-07T12:00:00-05:00",
			"2026-03-09T02:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{"America/New_York", "0 * * * *", "2026-03-08T01:00:00-05:00",
			"2026-03-08T03:00:00-04:00 2026-03-08T04:00:00-04:00"},
		// An hour that is repeated.
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00",
			"2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"},
		{"America/New_York", "30 0-2 * * *", "2026-11-01T00:00:00-04:00",
			"2026-11-01T00:30:00-04:00 2026-11-01T01:30:00-04:00 2026-11-01T02:30:00-05:00"},
		{"America/New_York", "30 1 * * *", "2026-11-01T01:15:00-05:00", "2026-11-02T01:30:00-05:00"},
		{"America/New_York", "*/30 1 * * *", "2026-11-01T00:00:00-04:00", "2026-11-01T01:00:00-04:00 " +
			"2026-11-01T01:30:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00 2026-11-02T01:00:00-05:00"},
		{"America/New_York", "*/30 1 1 11 *", "2026-11-01T01:30:00-04:00",
			"2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00 2027-11-01T01:00:00-04:00"},
		// Midnight is in the gap.
		{"Africa/Cairo", "@daily", "2026-04-23T12:00:00+02:00", "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"},
		{"America/Santiago", "0 0 * * *", "2026-09-05T12:00:00-04:00",
			"2026-09-06T01:00:00-03:00 2026-09-07T00:00:00-03:00"},
		{"Atlantic/Azores", "30 0 * * *", "2026-03-28T12:00:00-01:00",
			"2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"Atlantic/Azores", "30 0 * * *", "2026-10-24T12:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-26T00:30:00-01:00"},
		// Half an hour, two hours, a day.
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			"2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00+11:00",
			"2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		{"Australia/Lord_Howe", "*/15 1 5 4 *", "2026-04-05T01:15:00+11:00", "2026-04-05T01:30:00+11:00 " +
			"2026-04-05T01:45:00+11:00 2026-04-05T01:30:00+10:30 2026-04-05T01:45:00+10:30"},
		{"Antarctica/Troll", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"Antarctica/Troll", "30 1,2 * * *", "2026-10-24T12:00:00+02:00",
			"2026-10-25T01:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-26T01:30:00Z"},
		{"Pacific/Apia", "0 6 * * FRI", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00 2012-01-06T06:00:00+14:00"},
		{"Pacific/Apia", "0 6 * * *", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00 2011-12-31T06:00:00+14:00"},
		{"Pacific/Apia", "0 */6 * * FRI", "2011-12-29T12:00:00-10:00", "2012-01-06T00:00:00+14:00"},
		// Ramadan: the clock goes back, then forth.
		{"Africa/Casablanca", "30 2 * * *", "2026-02-14T12:00:00+01:00",
			"2026-02-15T02:30:00+01:00 2026-02-16T02:30:00Z"},
		{"Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00:00Z",
			"2026-03-22T03:00:00+01:00 2026-03-23T02:30:00+01:00"},
	} {
		got := list(mustCron(t, c.expr, c.zone), c.after, len(strings.Fields(c.want)))
		if got != c.want {
			t.Errorf("%s in %s after %s:\n got %s\nwant %s", c.expr, c.zone, c.after, got, c.want)
		}
	}
}

// list is the next n ticks after an instant.
func list(times *Times, after string, n int) string {
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		return err.Error()
	}
	var all []string
	for range n {
		at = times.Next(at)
		all = append(all, at.Format(time.RFC3339))
	}
	return strings.Join(all, " ")
}

// TestDays has the days that an expression matches.
func TestDays(t *testing.T) {
	for _, c := range []struct{ days, want string }{
		{"L * *", "2026-02-28 2026-03-31 2026-04-30"},
		{"L-2 * *", "2026-02-26 2026-03-29"},
		{"15W * *", "2026-02-16 2026-03-16 2026-04-15 2026-05-15"},
		{"1W * *", "2026-02-02 2026-03-02 2026-04-01 2026-05-01 2026-06-01 2026-07-01 2026-08-03"},
		{"31W * *", "2026-03-31 2026-05-29"},
		{"LW * *", "2026-02-27 2026-03-31 2026-04-30 2026-05-29"},
		{"* * 5#3", "2026-02-20 2026-03-20"},
		{"* * MON#5", "2026-03-30 2026-06-29"},
		{"* * 5L", "2026-02-27 2026-03-27"},
		{"* * 7", "2026-02-08 2026-02-15"},
		{"* * FRI-MON", "2026-02-02 2026-02-06 2026-02-07 2026-02-08 2026-02-09 2026-02-13"},
		{"* * 5-7", "2026-02-06 2026-02-07 2026-02-08 2026-02-13"},
		{"30-2 * *", "2026-02-02 2026-03-01 2026-03-02 2026-03-30"},
		{"1 NOV-FEB *", "2026-11-01 2026-12-01 2027-01-01 2027-02-01"},
		{"13 * FRI", "2026-02-06 2026-02-13 2026-02-20"},
		{"*/2 * FRI", "2026-02-13 2026-02-27"},
		{"1-7 * */7", "2026-03-01 2026-04-05 2026-05-03"}, // the first Sunday, as cron has it
		{"1-7 * */3", "2026-02-04 2026-02-07 2026-03-01"},
		{"29 2 *", "2028-02-29 2032-02-29"},
		{"29 2 */6", "2032-02-29"}, // begins with *, so it must be a Sunday or a Saturday, too
	} {
		var got strings.Builder
		at := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
		for range strings.FieldsSeq(c.want) {
			at = mustCron(t, "0 0 "+c.days, "").Next(at)
			got.WriteString(" " + at.Format(time.DateOnly))
		}
		if got.String()[1:] != c.want {
			t.Errorf("%s:\n got%s\nwant %s", c.days, got.String(), c.want)
		}
	}
}

// TestLastDayOfLeapYears: package time ends the periods of rules a day early then.
func TestLastDayOfLeapYears(t *testing.T) {
	for _, expr := range []string{"*/30 23 31 12 *", "0,30 23 31 12 *"} {
		want := "2040-12-31T23:00:00-05:00 2040-12-31T23:30:00-05:00 2041-12-31T23:00:00-05:00"
		if got := list(mustCron(t, expr, "America/New_York"), "2040-12-31T01:00:00-05:00", 3); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expr, got, want)
		}
	}
}

// TestRefused has what is no schedule, and a word of the reason.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ expr, zone, want string }{
		{"", "", "0 fields"}, {"* * * *", "", "4 fields"}, {"* * * * * * *", "", "7 fields"},
		{"60 * * * *", "", `"60" for its minute`}, {"* 24 * * *", "", "hour"}, {"* * 0 * *", "", "day"},
		{"* * * 13 *", "", "month"}, {"* * * * 8", "", "weekday"}, {"*/0 * * * *", "", "step"},
		{"* * * * MONDAY", "", "weekday"}, {"1,,2 * * * *", "", "minute"}, {"* * L-31 * *", "", "L-n"},
		{"* * * * 5#6", "", "FRI#n"}, {"* * 32W * *", "", "day"}, {"-1 * * * *", "", "minute"},
		{"* * * * L", "", "weekday"}, {"@every 5m", "", "@hourly"}, {"@reboot", "", "@hourly"},
		{"TZ=Europe/Berlin 0 0 * * *", "", "setting of its own"}, {"CRON_TZ=UTC 0 0 * * *", "", "setting of its own"},
		{"@daily", "Local", "machine to machine"}, {"@daily", "localtime", "machine to machine"}, {"@daily", "+02:00", "no zone"},
		{"@daily", "UTC+2", "no zone"}, {"@daily", "Europe/Atlantis", "no zone"}, {"@daily", "../etc/passwd", "no zone"},
		{"@daily", "right/UTC", "machine to machine"}, {"@daily", "posix/Europe/Berlin", "machine to machine"},
		{"* * * * */8", "", "steps go from 1 to 7"}, {"*/60 * * * *", "", "steps go from 1 to 59"},
		{"0 0 30 2 *", "", "never fires"}, {"0 0 31 4,6,9,11 *", "", "never fires"},
		{"*/5 2 * 3 SUN#2", "America/New_York", "never fires"}, // always in the gap
	} {
		times, err := Cron(c.expr, c.zone)
		if err == nil {
			err = times.Fires(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q is refused with %v, want %q", c.expr, c.zone, err, c.want)
		}
	}
}

// TestEvery counts from the epoch.
func TestEvery(t *testing.T) {
	for _, bad := range []time.Duration{0, -time.Minute, 500 * time.Millisecond, 1500 * time.Millisecond, 1 << 62} {
		if _, err := Every(bad, ""); err == nil {
			t.Errorf("every %v is not refused", bad)
		}
	}
	times, err := Every(7*time.Minute, "Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	want := "1970-01-01T05:30:00+05:30 1970-01-01T05:37:00+05:30 1970-01-01T05:44:00+05:30"
	if got := list(times, "1969-12-31T23:58:00Z", 3); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAgainstEachMinute compares Next with the rules applied to each minute around changes of clocks.
func TestAgainstEachMinute(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, zone := range []string{
		"America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "Antarctica/Troll", "Pacific/Apia",
		"Atlantic/Azores", "Africa/Casablanca", "Pacific/Kwajalein", "Asia/Kathmandu", "Europe/Dublin", "Asia/Tehran",
		"Pacific/Chatham", "America/Nuuk", "Asia/Gaza", "Asia/Pyongyang", "America/Caracas", "Asia/Manila", "UTC",
	} {
		l, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1984, 1993, 2011, 2026, 2080} {
			_, change := time.Date(year, 2, 1, 0, 0, 0, 0, l).ZoneBounds()
			for range 2 {
				if change.IsZero() {
					break
				}
				expr := randomExpression(r)
				compare(t, mustCron(t, expr, zone), expr, change.Add(-30*time.Hour), change.Add(50*time.Hour))
				_, change = change.ZoneBounds()
			}
		}
	}
}

// randomExpression is of minutes and hours, often early ones.
func randomExpression(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	return strings.Join([]string{
		pick("0", "15", "30", "0,30,45", "*/20", strconv.Itoa(r.IntN(60))),
		pick("0", "1", "2", "3", "0-3", "23-2", "*", "*/2", strconv.Itoa(r.IntN(24))), "*", "*",
		pick("*", "*", "SUN", "FRI", "THU-MON"),
	}, " ")
}

// compare checks the ticks between two instants, which are those of whole minutes.
func compare(t *testing.T, times *Times, expr string, from, to time.Time) {
	t.Helper()
	var want, got []int64
	from = from.Truncate(time.Hour) // in 2038 files of zones have an end that is no change
	start := from.Add(-72 * time.Hour).Unix()
	shown := times.reached(start)
	for at := start + 60; at <= to.Unix(); at += 60 {
		_, offset := time.Unix(at, 0).In(times.zone).Zone()
		wall := at + int64(offset)
		first := wall
		if !times.expr.elapsed {
			first = shown + 60
		}
		shown = max(shown, wall)
		for w := first; w <= wall; w += 60 {
			if matches(times.expr, time.Unix(w, 0).UTC()) {
				if at > from.Unix() {
					want = append(want, at)
				}
				break
			}
		}
	}
	for at := times.Next(from); !at.IsZero() && !at.After(to); at = times.Next(at) {
		got = append(got, at.Unix())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s in %v from %v:\n got %v\nwant %v", expr, times.zone, from, got, want)
	}
}

func matches(e *expression, wall time.Time) bool {
	return has(e.hour, wall.Hour()) && has(e.minute, wall.Minute()) && e.onDay(wall.Date())
}

// FuzzNext: nothing that is read panics, and ticks rise.
func FuzzNext(f *testing.F) {
	f.Add("*/5 2 15W,L-3 * FRI-MON", int64(1e9))
	f.Fuzz(func(t *testing.T, expr string, at int64) {
		times, err := Cron(expr, "America/New_York")
		if err != nil {
			return
		}
		at %= 4e9
		next := times.Next(time.Unix(at, 0))
		if !next.IsZero() && next.Unix() <= at {
			t.Errorf("%q after %d is %d", expr, at, next.Unix())
		}
	})
}
