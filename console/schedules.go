package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
)

func schedulePages() []page {
	return []page{
		{path: "/schedules", file: "schedules", nav: "Schedules", key: "c", show: scheduleList},
		{path: "/schedules/{name}", file: "schedule", show: schedulePage},
	}
}

// scheduleRow is a schedule with its times in words, and what became of its last ticks.
type scheduleRow struct {
	operate.Schedule
	Words string
	Past  []tick // the newest last
}

// tick is what became of a tick.
type tick struct{ operate.Run }

// Class is the color of a tick in the strip.
func (t *tick) Class() string {
	switch {
	case t.Outcome == "done":
		return "good"
	case t.Outcome == "dead":
		return "bad"
	case t.MessageID == nil:
		return "none"
	default:
		return "warn"
	}
}

// Said is what became of it in a word.
func (t *tick) Said() string { return cmp.Or(t.Outcome, t.Action) }

const (
	stripTicks   = 30
	listedStrips = 20 // schedules of the list that have one
)

func (v *view) scheduleRow(s operate.Schedule) scheduleRow {
	row := scheduleRow{Schedule: s, Words: v.T("every %s", s.Every)}
	if s.Cron != "" {
		row.Words = cronWords(s.Cron, v.Lang)
	}
	return row
}

// past are the newest ticks of a schedule, the newest first.
func (v *view) past(name string, most int) (all []tick, err error) {
	_, err = v.get(&all, url.Values{"limit": {strconv.Itoa(most)}}, "/schedules/%s/history", name)
	return all, err
}

// inOrder are the newest ticks, the newest last.
func inOrder(past []tick) []tick {
	past = slices.Clone(past[:min(len(past), stripTicks)])
	slices.Reverse(past)
	return past
}

// putSchedule is the form that writes a schedule, filled in with what is there now.
func putSchedule(v *view, label, name string, now *operate.WholeSchedule) *action {
	return v.Act(label, api.Operator, "/v1/schedules/%s/put", name).
		Field("s:cron", v.T("Cron expression"), now.Cron, "30 2 * * 1-5").
		Field("d:every_seconds", v.T("Or every"), now.Every, "15m").
		Field("s:zone", v.T("Zone"), now.Zone, "Europe/Berlin").
		Field("s:topic", v.T("Topic"), now.Topic, "").
		Area("s:body", v.T("Body"), text(now.Body), "").
		Field("s:key", v.T("Key"), now.Key, "").
		Field("n:priority", v.T("Priority"), strconv.Itoa(now.Priority), "0").
		Area("h:headers", v.T("Headers"), headerLines(now.Headers), "tenant: acme").
		Field("d:jitter_seconds", v.T("Delay at random, at most"), seconds(now.Jitter), "30s").
		Field("s:overlap", v.T("While the last message is unresolved"), now.Overlap, "queue, skip, replace").
		Field("s:missed", v.T("Missed ticks that are made up"), now.Missed, "once, skip, all").
		Field("d:missed_within_seconds", v.T("No older than"), seconds(now.MissedWithin), "1d").
		Check("b:paused", v.T("paused"), now.State == "paused")
}

// headerLines are headers as a form has them, and seconds a duration; empty for none.
func headerLines(headers map[string]string) (lines string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lines += name + ": " + headers[name] + "\n"
	}
	return lines
}

func seconds(n float64) string {
	if n == 0 {
		return ""
	}
	return time.Duration(n * float64(time.Second)).String()
}

type schedulesData struct {
	Rows   []scheduleRow
	Put    *action
	Cursor string
}

func scheduleList(v *view) (any, error) {
	var found []operate.Schedule
	cursor, err := v.get(&found, v.query("cursor"), "/schedules")
	if err != nil {
		return nil, err
	}
	d := schedulesData{Cursor: cursor}
	for i := range found {
		row := v.scheduleRow(found[i])
		if i < listedStrips {
			past, err := v.past(row.Name, stripTicks)
			if err != nil {
				return nil, err
			}
			row.Past = inOrder(past)
		}
		d.Rows = append(d.Rows, row)
	}
	d.Put = putSchedule(v, v.T("New schedule"), "{name}", &operate.WholeSchedule{})
	d.Put.Fields = slices.Insert(d.Put.Fields, 0, input{Name: "p:name", Label: v.T("Schedule"), Kind: "text"})
	return d, nil
}

type scheduleData struct {
	scheduleRow
	Next   []operate.Tick
	Recent []tick
	Forms  []*action
}

func schedulePage(v *view) (any, error) {
	name := v.r.PathValue("name")
	var s operate.WholeSchedule
	if _, err := v.get(&s, nil, "/schedules/%s", name); err != nil {
		return nil, err
	}
	d := scheduleData{scheduleRow: v.scheduleRow(s.Schedule)}
	if _, err := v.get(&d.Next, nil, "/schedules/%s/next", name); err != nil {
		return nil, err
	}
	var err error
	d.Recent, err = v.past(name, 100)
	d.Past = inOrder(d.Recent)
	d.Forms = append(d.Forms, v.Act(v.T("Backfill"), api.Operator, "/v1/schedules/%s/backfill", name).
		Field("t:since", v.T("From"), "", "2d, 2026-01-01T00:00:00Z").
		Field("t:until", v.T("Until"), "0s", "1h, 2026-02-01T00:00:00Z").
		Field("n:rate", v.T("Per second"), "", "").WithPlan())
	if s.Origin != cron.OriginFile && s.Bytes == nil { // a body that is no text has no field
		d.Forms = append(d.Forms, putSchedule(v, v.T("Edit"), name, &s))
	}
	return d, err
}
