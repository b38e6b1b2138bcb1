package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

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
type tick struct {
	Tick      time.Time  `json:"tick"`
	FiredAt   *time.Time `json:"fired_at"`
	MessageID *string    `json:"message_id"`
	Action    string     `json:"action"`
	Why       string     `json:"why"`
	Outcome   string     `json:"outcome"`
}

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
func (v *view) past(name string) ([]tick, error) {
	var all []tick
	return all, v.lookInto(&all, "schedules history", []string{name})
}

// lookInto is look for the data of a command.
func (v *view) lookInto(into any, name string, args []string, flags ...string) error {
	r, err := v.look(name, args, flags...)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r.Data)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

type schedulesData struct {
	Rows   []scheduleRow
	Put    *commandForm
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
			if row.Past, err = v.past(row.Name); err != nil { // a program without commands
				row.Past = nil
			}
			row.Past = row.Past[:min(len(row.Past), stripTicks)]
			slices.Reverse(row.Past)
		}
		d.Rows = append(d.Rows, row)
	}
	commands, err := v.commands("schedules")
	for i := range commands {
		if commands[i].Name == "schedules put" {
			d.Put = v.form(&commands[i], nil)
			d.Put.Label, d.Put.Back = v.T("New schedule"), v.URL("/schedules")
		}
	}
	return d, err
}

type scheduleData struct {
	scheduleRow
	Next   []time.Time
	Recent []tick
	Forms  []*commandForm
}

func schedulePage(v *view) (any, error) {
	name := v.r.PathValue("name")
	var s operate.Schedule
	if _, err := v.get(&s, nil, "/schedules/%s", name); err != nil {
		return nil, err
	}
	d := scheduleData{scheduleRow: v.scheduleRow(s)}
	commands, err := v.commands("schedules")
	if err != nil || len(commands) == 0 {
		return d, err
	}
	var next []struct {
		At time.Time `json:"tick"`
	}
	if err := v.lookInto(&next, "schedules next", []string{name}); err != nil {
		return nil, err
	}
	for _, n := range next {
		d.Next = append(d.Next, n.At)
	}
	if d.Recent, err = v.past(name); err != nil {
		return nil, err
	}
	d.Recent = d.Recent[:min(len(d.Recent), 100)]
	d.Past = slices.Clone(d.Recent[:min(len(d.Recent), stripTicks)])
	slices.Reverse(d.Past)
	for i := range commands {
		if c := &commands[i]; c.Name == "schedules backfill" || c.Name == "schedules put" && s.Origin != cron.OriginFile {
			f := v.form(c, map[string]string{"NAME": name})
			if f.Label = v.T("Backfill"); c.Name == "schedules put" {
				f.Label, f.Back = v.T("Write anew"), v.URL("/schedules/%s", name)
			}
			d.Forms = append(d.Forms, f)
		}
	}
	return d, nil
}
