package project

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// hold is a pause that a daemon makes because of what the index answers. It is in the state for commands to tell.
type hold struct {
	Until time.Time `json:"until"`
	State string    `json:"state"` // paused if the index refuses changes, degraded if requests fail
	Why   string    `json:"why"`
}

func (h hold) String() string { return "until " + h.Until.UTC().Format(time.RFC3339) + ": " + h.Why }

// on reports whether the pause is not over.
func (h hold) on() bool { return time.Until(h.Until) > 0 }

// lasts reports whether the pause goes on for longer than it takes to be told.
func (h hold) lasts() bool { return time.Until(h.Until) > lookEvery }

// The names of entries in the state, behind that of the flag.
const (
	holdEntry   = "/hold"
	resumeEntry = "/resumed" // each resume writes it
)

// tellHold stores a pause, unless it is there already.
func (p *projection) tellHold(ctx context.Context) {
	if h := p.window.hold(); h.lasts() && !h.Until.Equal(p.held) &&
		pipeline.WriteState(ctx, p.entries, p.flagKey()+holdEntry, h, new(store.AnyVersion), p.owner) == nil {
		p.held = h.Until
	}
}

// whyPaused says who paused the projection, until when, and why.
func whyPaused(pause *store.Pause) string {
	why := "by " + pause.By
	if !pause.Until.IsZero() {
		why += " until " + pause.Until.UTC().Format(time.RFC3339)
	}
	if pause.Reason != "" {
		why += ": " + pause.Reason
	}
	return why
}

// heedResume ends pauses that the index asked for after somebody resumed the projection.
func (p *projection) heedResume(ctx context.Context) {
	e, err := p.entries.GetState(ctx, p.flagKey()+resumeEntry)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return
	}
	if p.resumed != nil && *p.resumed != e.Version {
		p.window.resume()
	}
	p.resumed = &e.Version
}
