package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

const (
	// settleTime is what a change of stage needs to be known everywhere.
	settleTime = mirror.Fresh + 500*time.Millisecond
	// closedFor bounds how long appends wait, and openBefore is how long before that a
	// closing must have gone on, or is given up.
	closedFor  = 30 * time.Second
	openBefore = 5 * time.Second
	clearTime  = 5 * time.Second // for copies that are left, while appends wait
	fewLeft    = 1_000           // messages that are listed again and again, to tell copies from originals
	moveLook   = 250 * time.Millisecond
)

// ErrUnfinished says that a topic is on its way: the same command goes on.
var ErrUnfinished = errors.New("not finished")

// Moving says what to wait for before another store is put in charge, and for how long.
type Moving struct {
	Calm    time.Duration // without lag and difference, before anything is changed
	Timeout time.Duration // of each wait for workers; 0: none
	DryRun  bool
	Reason  string // for the audit
}

// Moved is the result, as JSON.
type Moved struct {
	Topic string       `json:"topic"`
	Stage mirror.Stage `json:"stage"`
	// Dead are dead letters that stay in the store that was in charge before.
	Dead          int64   `json:"dead_letters_left"`
	ClosedSeconds float64 `json:"closed_seconds"` // for so long appends waited
	Seconds       float64 `json:"duration_seconds"`
}

// CutOver puts the new store in charge of a topic. It goes on from wherever an earlier
// one ended; what it returns along with an error is how far it is.
func (t *Traffic) CutOver(ctx context.Context, topic string, m Moving) (*Moved, error) {
	return t.move(ctx, topic, "cut-over", m, func(p *mirror.Plan, done *Moved) error {
		switch {
		case p.Stage == mirror.Returning:
			return conflict("it is being rolled back", "let `pawl traffic roll-back` end first", topic)
		case p.Stage == mirror.Dual && m.DryRun:
			c, err := t.compare(ctx, p, 3*time.Second, true)
			if err == nil && c.Found() > 0 {
				err = differ(c)
			}
			return err
		case m.DryRun:
			return nil
		case p.Stage == mirror.Dual:
			if err := t.unpaused(ctx, p, t.from); err != nil {
				return err
			}
			if err := t.calm(ctx, p, m); err != nil {
				return err
			}
			if err := t.shift(ctx, p, mirror.Draining, done); err != nil {
				return err
			}
			t.tell("appends of topic %s go to the new store; the old one is worked off", topic)
		}
		return t.drain(ctx, p, m, mirror.Draining, mirror.Moved)
	})
}

// RollBack puts the old store in charge again, in the same way: what is appended goes there,
// and is worked on when the new store is empty. It goes on from wherever an earlier one
// ended. Afterwards the topic is copied again.
func (t *Traffic) RollBack(ctx context.Context, topic string, m Moving) (*Moved, error) {
	return t.move(ctx, topic, "roll-back", m, func(p *mirror.Plan, done *Moved) error {
		// First of all: while it is away nothing of it can be worked off.
		if _, err := figures(ctx, t.to, topic); err != nil {
			return fmt.Errorf("the new store cannot be reached, and nothing was changed: %w", err)
		}
		if m.DryRun {
			return nil
		}
		if p.Stage == mirror.Draining {
			t.tell("what is left of topic %s in the old store comes first", topic)
			if err := t.drain(ctx, p, m, mirror.Draining, mirror.Moved); err != nil {
				return err
			}
		}
		if p.Stage == mirror.Moved {
			if err := t.unpaused(ctx, p, t.to); err != nil {
				return err
			}
			if err := t.shift(ctx, p, mirror.Returning, done); err != nil {
				return err
			}
			t.tell("appends of topic %s go to the old store; the new one is worked off", topic)
		}
		return t.drain(ctx, p, m, mirror.Returning, mirror.Dual)
	})
}

// move reads the plan of a topic, takes steps, and says what has been done, also with an
// error.
func (t *Traffic) move(ctx context.Context, topic, name string, m Moving,
	steps func(*mirror.Plan, *Moved) error) (*Moved, error) {
	began, done := time.Now(), &Moved{Topic: topic}
	p, err := t.planned(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err = t.reopen(ctx, p, m.DryRun); err == nil {
		before := p.Version()
		err = steps(p, done)
		if err == nil && p.Version() != before {
			err = t.audit(ctx, name, p, fmt.Sprintf("closed for %.1fs", done.ClosedSeconds), m.Reason)
		}
	}
	if behind, _, _ := t.behind(p); err == nil {
		if s, bad := figures(ctx, behind, topic); bad == nil {
			done.Dead = s.Dead
		}
	}
	done.Stage, done.Seconds = p.Stage, time.Since(began).Seconds()
	return done, err
}

// reopen ends a closing whose process has gone, in the stage before; dry only tells how
// things would stand then.
func (t *Traffic) reopen(ctx context.Context, p *mirror.Plan, dry bool) error {
	if p.Stage != mirror.Closing {
		return nil
	}
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return err
	}
	if now.Before(p.Until) {
		return conflict(fmt.Sprintf("another process moves it, or did until it died: it is closed for %.0f s more",
			p.Until.Sub(now).Seconds()), "run it again then", p.Topic)
	}
	if dry {
		p.Stage = p.From
		return nil
	}
	return t.put(ctx, p, p.From)
}

// unpaused sees that nobody has paused a topic that is to be worked off.
func (t *Traffic) unpaused(ctx context.Context, p *mirror.Plan, topics store.Topics) error {
	s, err := figures(ctx, topics, p.Topic)
	if err == nil && s.Paused != nil {
		err = conflict("it is paused by "+s.Paused.By+operate.Because(s.Paused.Reason),
			"resume it, so that what it has can be worked off: pawl topics resume "+p.Topic, p.Topic)
	}
	return err
}

func differ(c *Comparison) error {
	return &store.Error{Op: "topic " + c.Topic, Code: store.ErrConflict,
		Err: fmt.Errorf("%s missing, %d out of order, %d different", operate.Counted(c.Missing, "message is", "messages are"),
			c.Disordered, c.Different),
		Hint: "see `pawl traffic compare " + c.Topic + "`; what the old store has done does not count any more"}
}

// calm waits until nothing has differed for long enough, and nothing new was missed.
func (t *Traffic) calm(ctx context.Context, p *mirror.Plan, m Moving) error {
	began, since := time.Now(), time.Now()
	var done Comparison
	var last *Comparison
	missed := int64(-1)
	for {
		c, err := t.round(ctx, p, last, &done, false)
		var copies mirror.TopicStats
		if err == nil {
			copies, err = t.Plans.Copies(ctx, p.Topic)
		}
		if errors.Is(err, store.ErrUnavailable) && store.Sleep(ctx, time.Second) == nil &&
			(m.Timeout == 0 || time.Since(began) < m.Timeout+m.Calm) {
			t.tell("%v; looking again", err)
			since, last = time.Now(), nil
			continue
		}
		if err != nil {
			return err
		}
		gone := copies.Missed + copies.Refused
		if c.Found() > 0 || gone != missed {
			since = time.Now()
		}
		if missed >= 0 && gone > missed {
			t.tell("%d more messages have no copy", gone-missed)
		}
		missed, last = gone, c
		switch {
		case c.Rounds > 1 && c.Found() == 0 && time.Since(since) >= m.Calm:
			return nil
		case m.Timeout > 0 && time.Since(began) > m.Timeout+m.Calm:
			if c.Found() > 0 {
				return differ(c)
			}
			return unfinishedError(p, "the stores differed again within %v; nothing was changed", m.Calm)
		}
		if store.Sleep(ctx, time.Second) != nil {
			return errors.Join(unfinishedError(p, "nothing was changed"), context.Cause(ctx))
		}
	}
}

func unfinishedError(p *mirror.Plan, why string, args ...any) error {
	return fmt.Errorf("topic %s is %s, %w: %s", p.Topic, p.Stage, ErrUnfinished, fmt.Sprintf(why, args...))
}

// shift closes a topic until every process knows, and lets appends go to the other store.
// What goes wrong before that opens the topic again, as it was; so does time if the process
// dies.
func (t *Traffic) shift(ctx context.Context, p *mirror.Plan, next mirror.Stage, done *Moved) error {
	began, from := time.Now(), p.Stage
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return err
	}
	err = t.put(ctx, p, mirror.Closing, func(p *mirror.Plan) { p.From, p.Until = from, now.Add(closedFor).UTC() })
	if err != nil {
		return err
	}
	t.tell("topic %s is closed: appends wait", p.Topic)
	if store.Sleep(ctx, settleTime) != nil {
		err = context.Cause(ctx)
	}
	if err == nil && from == mirror.Dual {
		short, cancel := context.WithTimeout(ctx, clearTime)
		err = t.clear(short, p)
		if short.Err() != nil && ctx.Err() == nil {
			err = nil // copies that are left are given to nobody
		}
		cancel()
	}
	if err == nil {
		now, err = t.Plans.Clock(ctx)
	}
	if err == nil && now.Add(openBefore).After(p.Until) {
		err = errors.New("there was not enough time")
	}
	done.ClosedSeconds += time.Since(began).Seconds()
	if err != nil {
		bad := t.put(context.WithoutCancel(ctx), p, from)
		return errors.Join(unfinishedError(p, "it was opened again, as before"), err, bad)
	}
	return t.put(ctx, p, next)
}

// behind is the store that a topic leaves, and a count of what it still has.
func (t *Traffic) behind(p *mirror.Plan) (store.Topics, string, func(context.Context) (int64, error)) {
	if p.Stage == mirror.Draining || p.Stage == mirror.Moved {
		return t.from, "old", func(ctx context.Context) (int64, error) {
			s, err := figures(ctx, t.from, p.Topic)
			return unfinished(s), err
		}
	}
	return t.to, "new", func(ctx context.Context) (int64, error) {
		s, err := figures(ctx, t.to, p.Topic)
		left := unfinished(s)
		if err != nil || left == 0 || p.Stage == mirror.Returning && left > fewLeft {
			return left, err
		}
		return t.originals(ctx, p) // copies do not count
	}
}

// drain waits until the store that a topic leaves is worked off, also of what reaches it
// late, and puts the other one in charge.
func (t *Traffic) drain(ctx context.Context, p *mirror.Plan, m Moving, via, end mirror.Stage) error {
	for {
		if p.Stage == via {
			if err := t.empty(ctx, p, m); err != nil {
				return err
			}
			if via == mirror.Draining {
				if err := t.clear(ctx, p); err != nil { // copies that came late
					return err
				}
			}
			if err := t.put(ctx, p, end); err != nil {
				return err
			}
		}
		// An append that began long ago may end only now.
		if store.Sleep(ctx, settleTime) != nil {
			return nil
		}
		_, name, count := t.behind(p)
		left, err := count(ctx)
		if err != nil || left == 0 {
			return err
		}
		t.tell("%d messages reached the %s store late; they are processed, too", left, name)
		if err := t.put(ctx, p, via); err != nil {
			return err
		}
	}
}

// empty waits until the store that a topic leaves has done everything.
func (t *Traffic) empty(ctx context.Context, p *mirror.Plan, m Moving) error {
	last := int64(-1)
	topics, name, count := t.behind(p)
	for began := time.Now(); ; {
		left, err := count(ctx)
		if err != nil {
			return err
		}
		switch {
		case left == 0:
			return nil
		case m.Timeout > 0 && time.Since(began) > m.Timeout:
			s, err := figures(ctx, topics, p.Topic)
			return errors.Join(unfinishedError(p, "the %s store has %d messages that are not done (%d of them delayed); "+
				"its workers have to go on", name, left, s.Delayed), err)
		case left != last:
			t.tell("the %s store has %d messages of topic %s that are not done", name, left, p.Topic)
		}
		last = left
		if store.Sleep(ctx, moveLook) != nil {
			return errors.Join(unfinishedError(p, "the %s store has %d messages that are not done", name, left),
				context.Cause(ctx))
		}
	}
}
