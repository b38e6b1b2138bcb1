package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// pauseReason tells pauses of ours from those of people.
const pauseReason = "traffic: another store is in charge"

// insteadOf continues another pause that ours stands in for.
const insteadOf = "; instead of "

// PausedHere reports whether moving traffic paused a topic.
func PausedHere(s *store.TopicStats) bool {
	return s.Paused != nil && (s.Paused.Reason == pauseReason ||
		strings.HasPrefix(s.Paused.Reason, pauseReason+insteadOf))
}

// standIn is the reason of ours that stands in for a pause of somebody else. It notes
// that one in itself, so that they change places in one step.
func standIn(q *store.Pause) string {
	// whatever JSON makes of it
	short := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), store.MaxReason/16)], "") }
	note, err := json.Marshal(store.Pause{Since: q.Since, Until: q.Until, By: short(q.By), Reason: short(q.Reason)})
	if err != nil {
		return pauseReason
	}
	return pauseReason + insteadOf + string(note)
}

// side is a topic in one of the stores.
type side struct {
	topics store.Topics
	name   string
	new    bool
}

func (t *Traffic) oldSide(p *mirror.Plan) side { return side{t.from, p.Topic, false} }
func (t *Traffic) newSide(p *mirror.Plan) side { return side{t.to, p.InMirrored(), true} }

// works reports whether a topic is to be worked off there, as things stand.
func (s side) works(p *mirror.Plan) bool {
	if s.new {
		return p.Stage != mirror.Draining && (p.Stage != mirror.Closing || p.From != mirror.Dual)
	}
	return p.Stage != mirror.Moved
}

// current sees that nobody has changed a plan meanwhile.
func (t *Traffic) current(ctx context.Context, p *mirror.Plan) error {
	now, err := t.Plans.Get(ctx, p.Topic)
	if err == nil && now.Version() != p.Version() {
		err = conflict("another process moves it: it is "+string(now.Stage)+" now",
			"see `pawl traffic status "+p.Topic+"`, and run it again when that one has ended", p.Topic)
	}
	return err
}

// theirs is a pause of somebody else, also one that ours stands in for.
func theirs(s *store.TopicStats) *store.Pause {
	if !PausedHere(s) {
		return s.Paused
	}
	note, ok := strings.CutPrefix(s.Paused.Reason, pauseReason+insteadOf)
	var q store.Pause
	if !ok || json.Unmarshal([]byte(note), &q) != nil || q.Until.IsZero() {
		return nil
	}
	return &q
}

// outlasts reports whether a pause ends after another one; nil is none.
func outlasts(q, other *store.Pause) bool {
	switch {
	case q == nil || other == nil:
		return q != nil
	case q.Until.IsZero() || other.Until.IsZero():
		return !other.Until.IsZero()
	}
	return q.Until.After(other.Until)
}

// both are the figures of a topic in both stores.
func (t *Traffic) both(ctx context.Context, p *mirror.Plan) (here, there store.TopicStats, err error) {
	if here, err = figures(ctx, t.from, p.Topic); err == nil {
		there, err = figures(ctx, t.to, p.InMirrored())
	}
	return here, there, err
}

// takeOver lets the topic be worked on in the new store, and not in the old one. A pause
// of somebody else goes with it.
func (t *Traffic) takeOver(ctx context.Context, p *mirror.Plan) error {
	here, there, err := t.both(ctx, p)
	if err != nil {
		return err
	}
	if q := theirs(&here); PausedHere(&there) && outlasts(q, theirs(&there)) {
		err = t.again(ctx, p, t.From, q, t.newSide(p))
	} else {
		err = t.unpause(ctx, p, t.newSide(p))
	}
	if err == nil {
		err = t.pause(ctx, p, t.oldSide(p))
	}
	return err
}

// handBack lets the topic be worked on in the old store, and be carried back from the new
// one. A pause of somebody else goes with it.
func (t *Traffic) handBack(ctx context.Context, p *mirror.Plan) error {
	_, there, err := t.both(ctx, p)
	if err != nil {
		return err
	}
	q := theirs(&there)
	if q == nil {
		return errors.Join(t.unpause(ctx, p, t.oldSide(p)), t.unpause(ctx, p, t.newSide(p)))
	}
	if err := t.again(ctx, p, t.To, q, t.oldSide(p)); err != nil {
		return err
	}
	return t.to.Resume(ctx, p.InMirrored())
}

// again makes the pause that a topic has in one store that of the other one. What is over
// by now ends ours.
func (t *Traffic) again(ctx context.Context, p *mirror.Plan, in store.Store, q *store.Pause, s side) error {
	left, over, err := remains(ctx, in, q)
	switch {
	case err != nil:
		return err
	case over:
		return t.unpause(ctx, p, s)
	}
	if err := t.current(ctx, p); err != nil {
		return err
	}
	return s.topics.Pause(ctx, s.name, left, q.By, q.Reason)
}

// remains tells for how long a pause goes on, by the clock of the store it was made in; 0
// is until somebody ends it.
func remains(ctx context.Context, in store.Store, q *store.Pause) (left time.Duration, over bool, err error) {
	if q.Until.IsZero() {
		return 0, false, nil
	}
	now := time.Now()
	if state, ok := store.As[store.Shared](in); ok {
		if now, err = state.Clock(ctx); err != nil {
			return 0, false, err
		}
	}
	left = q.Until.Sub(now)
	return left, left <= 0, nil
}

// unpause ends a pause of ours, and no other, if the plan is as we know it. What it stood
// in for goes on.
func (t *Traffic) unpause(ctx context.Context, p *mirror.Plan, s side) error {
	stats, err := figures(ctx, s.topics, s.name)
	if err != nil || !PausedHere(&stats) {
		return err
	}
	q, left := theirs(&stats), time.Duration(0)
	if q != nil {
		over := false
		if left, over, err = remains(ctx, t.To, q); err != nil {
			return err
		} else if over {
			q = nil
		}
	}
	if err := t.current(ctx, p); err != nil {
		return err
	}
	if q != nil {
		return s.topics.Pause(ctx, s.name, left, q.By, q.Reason)
	}
	return s.topics.Resume(ctx, s.name)
}

// pause stops the claims of a topic, if the plan is as we know it. In the new store, that
// of somebody else does as well, unless it ends by itself: ours stands in for that one.
// When the plan has changed by then, the pause ends again, unless it belongs to the stage
// that the topic is in now.
func (t *Traffic) pause(ctx context.Context, p *mirror.Plan, s side) error {
	if err := t.current(ctx, p); err != nil {
		return err
	}
	stats, err := figures(ctx, s.topics, s.name)
	if err != nil {
		return err
	}
	reason := pauseReason
	if q := theirs(&stats); s.new && q != nil {
		if q.Until.IsZero() {
			return nil
		}
		reason = standIn(q)
	}
	err = s.topics.Pause(ctx, s.name, 0, t.Who, reason)
	if errors.Is(err, store.ErrNotFound) {
		return nil // nothing was ever appended
	}
	if err != nil {
		return err
	}
	if err = t.current(ctx, p); err != nil {
		err = errors.Join(err, t.tidy(ctx, p.Topic, s))
	}
	return err
}

// hold sees that the new store still waits for the old one: somebody may have paused the
// topic there for a while, or resumed it. One that is away gives nothing out either.
func (t *Traffic) hold(ctx context.Context, p *mirror.Plan) error {
	stats, err := figures(ctx, t.to, p.InMirrored())
	if err == nil && !PausedHere(&stats) {
		err = t.pause(ctx, p, t.newSide(p))
	}
	if errors.Is(err, store.ErrUnavailable) {
		return nil
	}
	return err
}

// tidy ends a pause of ours that does not belong to the stage that a topic is in.
func (t *Traffic) tidy(ctx context.Context, topic string, s side) error {
	ctx = context.WithoutCancel(ctx)
	now, err := t.Plans.Get(ctx, topic)
	if err == nil && s.works(now) {
		err = t.unpause(ctx, now, s)
	}
	return err
}
