package operate

import (
	"cmp"
	"context"
	"errors"
	"time"

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
}

// FormSchedule is the form of a schedule. It looks up what became of the message of the last tick.
func FormSchedule(ctx context.Context, s store.Store, c *cron.Status) (Schedule, error) {
	f := Schedule{
		Name: c.Name, Cron: c.Cron, Zone: cmp.Or(c.Zone, "UTC"), Topic: c.Topic, State: "active",
		NextAt: Given(c.Next), LastTick: Given(c.LastTick), LastFiredAt: Given(c.LastAt),
		Origin: c.Origin, Missed: c.Missed,
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
