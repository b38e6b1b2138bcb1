package operate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/store"
)

// Schedule is a schedule and where it stands, as JSON.
type Schedule struct {
	Name        string     `json:"name"`
	Cron        string     `json:"cron"`
	Every       string     `json:"every,omitempty"`
	Zone        string     `json:"zone"`
	Topic       string     `json:"topic"`
	State       string     `json:"state"`
	NextAt      *time.Time `json:"next_at"`
	LastTick    *time.Time `json:"last_tick"`
	LastFiredAt *time.Time `json:"last_fired_at"`
	LastOutcome string     `json:"last_outcome"`
	Origin      string     `json:"origin"`
	Missed      int64      `json:"missed_total"`
	Overdue     float64    `json:"overdue_seconds"`
}

// WholeSchedule is a schedule with what it sends, as JSON.
type WholeSchedule struct {
	Schedule
	Key          string            `json:"key"`
	Priority     int               `json:"priority"`
	Headers      map[string]string `json:"headers"`
	Body         *string           `json:"body,omitempty"`
	Bytes        []byte            `json:"body_base64,omitempty"` // in place of a body that is no text
	Jitter       float64           `json:"jitter_seconds"`
	Overlap      string            `json:"overlap"`
	Missed       string            `json:"missed"`
	MissedWithin float64           `json:"missed_within_seconds"`
}

// FormWholeSchedule is the form of a schedule with what it sends.
func FormWholeSchedule(ctx context.Context, s store.Store, c *cron.Status) (WholeSchedule, error) {
	f, err := FormSchedule(ctx, s, c)
	w := WholeSchedule{Schedule: f, Key: string(c.Key), Priority: c.Priority, Headers: map[string]string{},
		Jitter: c.Jitter.Seconds(), Overlap: cmp.Or(c.Overlap, cron.OverlapQueue),
		Missed: cmp.Or(c.Schedule.Missed, cron.MissedOnce), MissedWithin: c.Within().Seconds()}
	maps.Copy(w.Headers, c.Headers)
	if utf8.Valid(c.Body) {
		w.Body = new(string(c.Body))
	} else {
		w.Bytes = c.Body
	}
	return w, err
}

// FormSchedule is the form of a schedule. It looks up what became of the message of the last tick.
func FormSchedule(ctx context.Context, s store.Store, c *cron.Status) (Schedule, error) {
	f := Schedule{
		Name: c.Name, Cron: c.Cron, Zone: cmp.Or(c.Zone, "UTC"), Topic: c.Topic, State: "active",
		NextAt: Given(c.Next), LastTick: Given(c.LastTick), LastFiredAt: Given(c.LastAt),
		Origin: c.Origin, Missed: c.Missed, Overdue: c.Overdue.Seconds(),
	}
	if c.Every != 0 {
		f.Every = c.Every.String()
	}
	if c.Paused {
		f.State = "paused"
	}
	var err error
	f.LastOutcome, err = Outcome(ctx, s, c.LastID)
	return f, err
}

// Schedules are the forms of all schedules that c keeps in s.
func Schedules(ctx context.Context, s store.Store, c *cron.Scheduler) ([]Schedule, error) {
	known, err := c.Statuses(ctx)
	all := make([]Schedule, len(known))
	for i := 0; i < len(known) && err == nil; i++ {
		all[i], err = FormSchedule(ctx, s, &known[i])
	}
	return all, err
}

// Runs are the forms of what became of the newest ticks of a schedule, the newest first, and up to most.
func Runs(ctx context.Context, s store.Store, c *cron.Scheduler, name string, most int) ([]Run, error) {
	all := []Run{}
	for r, err := range c.Past(ctx, name) {
		if err != nil {
			return nil, err
		}
		if len(all) == most {
			break
		}
		f, err := FormRun(ctx, s, &r)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Given is t, nil for none. The zone stays.
func Given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Outcome is the state of the message of a tick, done if it is acked or gone, and empty if there is none or the store
// cannot say.
func Outcome(ctx context.Context, s store.Store, id string) (string, error) {
	l, ok := store.As[store.Inspector](s)
	if id == "" || !ok {
		return "", nil
	}
	m, err := l.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || m.State == store.Acked {
		return "done", nil
	}
	return string(m.State), err
}

// Tick is a tick to come, as JSON.
type Tick struct {
	Tick string    `json:"tick"` // with the offset of the zone
	At   time.Time `json:"at"`
}

// NextTicks returns up to n ticks of a schedule strictly after from.
func NextTicks(s *cron.Schedule, from time.Time, n int) ([]Tick, error) {
	times, err := s.Times()
	if err != nil {
		return nil, err
	}
	ticks := []Tick{}
	for at := times.Next(from); len(ticks) < n && !at.IsZero(); at = times.Next(at) {
		ticks = append(ticks, Tick{at.Format(time.RFC3339), at.UTC()})
	}
	return ticks, nil
}

// Run is what became of a tick, as JSON.
type Run struct {
	Tick      time.Time `json:"tick"`
	FiredAt   time.Time `json:"fired_at"`
	MessageID *string   `json:"message_id"`
	Action    string    `json:"action"`
	Why       string    `json:"why"`
	Outcome   string    `json:"outcome"`
}

// FormRun is the form of what became of a tick. It looks up what became of its message.
func FormRun(ctx context.Context, s store.Store, r *cron.Run) (f Run, err error) {
	f = Run{Tick: r.Tick, FiredAt: r.At, Action: r.Action, Why: r.Why}
	if r.MessageID != "" {
		f.MessageID = &r.MessageID
	}
	if r.Action != cron.ActionReplaced {
		f.Outcome, err = Outcome(ctx, s, r.MessageID)
	}
	return f, err
}

// Backfill is the result of a backfill, as JSON.
type Backfill struct {
	Count int      `json:"count"`
	Ticks []string `json:"ticks"`
}

// FormBackfill is the form of the ticks of a backfill.
func FormBackfill(ticks []time.Time) Backfill {
	f := Backfill{Count: len(ticks), Ticks: []string{}}
	for _, tick := range ticks {
		f.Ticks = append(f.Ticks, tick.Format(time.RFC3339))
	}
	return f
}
