package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	Topic    string          `json:"topic"`
	Stage    mirror.Stage    `json:"stage"`
	Position *mirror.Figures `json:"position,omitempty"`
	Carried  int64           `json:"carried"`
	Letters  int64           `json:"dead_letters_carried"`
	// Dead are dead letters that stay in the old store.
	Dead int64 `json:"dead_letters_left"`
	// Refused are dead letters that stay in the new store, because the old one does not
	// take them.
	Refused       int64   `json:"dead_letters_refused"`
	ClosedSeconds float64 `json:"closed_seconds"` // for so long appends waited
	Seconds       float64 `json:"duration_seconds"`
}

// begin finds the plan of a topic. finish completes what has been done so far, which is returned with an error, too.
func (t *Traffic) begin(ctx context.Context, topic string) (
	p *mirror.Plan, done *Moved, finish func(error) (*Moved, error), err error,
) {
	began, done := time.Now(), &Moved{Topic: topic}
	p, err = t.planned(ctx, topic)
	return p, done, func(err error) (*Moved, error) {
		done.Stage, done.Position, done.Seconds = p.Stage, p.Position, time.Since(began).Seconds()
		return done, err
	}, err
}

// CutOver puts the new store in charge of a topic. It goes on from wherever an earlier
// one ended; what it returns along with an error is how far it is.
func (t *Traffic) CutOver(ctx context.Context, topic string, m Moving) (*Moved, error) {
	p, done, finish, err := t.begin(ctx, topic)
	if err != nil {
		return nil, err
	}
	if p.Sample > 0 && p.Sample < 1 {
		return nil, conflict("only a sample of it is copied", "stop, and copy all of it first", topic)
	}
	if err := t.reopen(ctx, p, m.DryRun); err != nil {
		return finish(err)
	}
	if p.Stage == mirror.Returning {
		return nil, conflict("it is being rolled back", "let `pawl traffic roll-back` end first", topic)
	}
	if m.DryRun {
		c, err := t.once(ctx, p)
		if err == nil && c.Found() > 0 {
			err = differ(c)
		}
		return finish(err)
	}
	before := p.Stage
	end, err := t.attend(ctx, topic, store.AnyVersion)
	if err != nil {
		return finish(err)
	}
	if p.Stage == mirror.Dual {
		if err = t.calm(ctx, p, m); err == nil {
			err = t.handOver(ctx, p, done)
		}
	}
	if err == nil {
		err = t.drainAll(ctx, p, m)
	}
	end(err == nil || p.Stage != mirror.Moved)
	if err != nil {
		return finish(err)
	}
	if s, err := figures(ctx, t.from, topic); err == nil {
		done.Dead = s.Dead
	}
	if before == mirror.Moved {
		return finish(nil) // nothing has changed
	}
	return finish(t.audit(ctx, "cut-over", p, 1, fmt.Sprintf("closed for %.1fs", done.ClosedSeconds), m.Reason))
}

// drainAll lets the old store be worked off, also of what reaches it late, and puts the new
// one in charge.
func (t *Traffic) drainAll(ctx context.Context, p *mirror.Plan, m Moving) error {
	for {
		left, err := t.drain(ctx, p, m)
		if err != nil || left == 0 {
			return err
		}
		t.tell("%d messages reached the old store late; they are processed, too", left)
	}
}

// once compares, with what is needed to tell what is late.
func (t *Traffic) once(ctx context.Context, p *mirror.Plan) (*Comparison, error) {
	if p.Stage != mirror.Dual {
		return &Comparison{Topic: p.Topic}, nil
	}
	return t.compare(ctx, p, 3*time.Second, true)
}

func differ(c *Comparison) error {
	return &store.Error{Op: "topic " + c.Topic, Code: store.ErrConflict,
		Err: fmt.Errorf("%d messages are missing, %d out of order, %d different", c.Missing, c.Disordered,
			c.Different),
		Hint: "see `pawl traffic compare " + c.Topic + "`; what the old store has done does not count any more"}
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

// calm waits until nothing has differed for long enough, and nothing new was missed.
func (t *Traffic) calm(ctx context.Context, p *mirror.Plan, m Moving) error {
	began, since := time.Now(), time.Now()
	var done Comparison
	var last *Comparison
	missed := int64(-1)
	for {
		c, err := t.round(ctx, p, last, &done, false)
		var status []Status
		if err == nil {
			status, err = t.Status(ctx, p.Topic)
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
		gone := status[0].Copies.Missed + status[0].Copies.Refused
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

// shut closes a topic, and waits until every process knows.
func (t *Traffic) shut(ctx context.Context, p *mirror.Plan) (time.Time, error) {
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return now, err
	}
	from := p.Stage
	err = t.put(ctx, p, mirror.Closing, func(p *mirror.Plan) { p.From, p.Until = from, now.Add(closedFor).UTC() })
	if err != nil {
		return now, err
	}
	t.tell("topic %s is closed: appends wait", p.Topic)
	began := time.Now()
	if store.Sleep(ctx, settleTime) != nil {
		return began, t.giveUp(ctx, p, context.Cause(ctx))
	}
	return began, nil
}

// giveUp opens a closed topic in the stage before.
func (t *Traffic) giveUp(ctx context.Context, p *mirror.Plan, why error) error {
	err := t.put(context.WithoutCancel(ctx), p, p.From)
	return errors.Join(unfinishedError(p, "it was opened again, as before"), why, err)
}

// inTime opens a closed topic, in the stage before, unless there is enough time left to put it into another one.
func (t *Traffic) inTime(ctx context.Context, p *mirror.Plan) error {
	now, err := t.Plans.Clock(ctx)
	if err != nil || now.Add(openBefore/2).After(p.Until) {
		return t.giveUp(ctx, p, errors.Join(errTooLate, err))
	}
	return nil
}

// handOver closes the topic, removes the copies that are left, and lets appends go to
// the new store.
func (t *Traffic) handOver(ctx context.Context, p *mirror.Plan, done *Moved) error {
	if _, err := t.busy(ctx, p, 0); err != nil {
		return errors.Join(unfinishedError(p, "nothing was changed"), err)
	}
	if err := t.consumable(ctx, p); err != nil {
		return err
	}
	began, err := t.shut(ctx, p)
	if err != nil {
		return err
	}
	if err := t.still(ctx, p, began); err != nil {
		return t.giveUp(ctx, p, err)
	}
	name := p.InMirrored()
	for {
		var c Comparison
		err := t.shadow(ctx, p, &c, true)
		if err == nil {
			err = t.cancelDelayed(ctx, name)
		}
		var s store.TopicStats
		if err == nil {
			s, err = figures(ctx, t.to, name)
		}
		if err == nil && unfinished(s) == 0 {
			break
		}
		if err == nil && (time.Since(began) > closedFor-openBefore || store.Sleep(ctx, moveLook) != nil) {
			err = fmt.Errorf("%d copies could not be consumed in time", unfinished(s))
		}
		if err != nil {
			return t.giveUp(ctx, p, err)
		}
	}
	// From here on what is in the new store is no copy, and waits for what is before it.
	if err := t.pause(ctx, p, t.newSide(p)); err != nil {
		return t.giveUp(ctx, p, err)
	}
	if err = t.inTime(ctx, p); err == nil {
		err = t.put(ctx, p, mirror.Draining)
	}
	if err != nil {
		return errors.Join(err, t.tidy(ctx, p.Topic, t.newSide(p)))
	}
	done.ClosedSeconds += time.Since(began).Seconds()
	t.tell("appends of topic %s go to the new store; the old one is worked off", p.Topic)
	return nil
}

// consumable waits until the copies of what the old store has done can be consumed: of no
// more than it was given in the meantime there are any left. While somebody else has some
// of them in the new store, closing the topic would be for nothing.
func (t *Traffic) consumable(ctx context.Context, p *mirror.Plan) error {
	appended := int64(-1)
	for began := time.Now(); ; {
		var c Comparison
		if err := t.shadow(ctx, p, &c, false); err != nil {
			return err
		}
		here, there, err := t.both(ctx, p)
		if err != nil {
			return err
		}
		left := unfinished(there) - unfinished(here)
		if left <= 0 || appended >= 0 && left <= here.Appended-appended {
			return nil
		}
		if appended = here.Appended; time.Since(began) > closedFor {
			return unfinishedError(p,
				"%d copies cannot be consumed in the new store: another process has them, or their partitions; nothing was changed",
				left)
		}
		if store.Sleep(ctx, 2*shadowAgain) != nil {
			return errors.Join(unfinishedError(p, "nothing was changed"), context.Cause(ctx))
		}
	}
}

// still waits until no process has a copy on its way that would arrive, as an original,
// when the new store is in charge. No more are sent: the topic is closed.
func (t *Traffic) still(ctx context.Context, p *mirror.Plan, began time.Time) error {
	for {
		names, err := t.busy(ctx, p, p.Version())
		if err != nil || len(names) == 0 {
			return err
		}
		if time.Since(began) > closedFor-openBefore || store.Sleep(ctx, moveLook) != nil {
			return fmt.Errorf("copies of %d processes are still on their way, or unreported: %s", len(names),
				strings.Join(names, ", "))
		}
	}
}

// busy names the processes that have copies of a topic on their way, or have not yet said
// that they know of that version of its plan. It is an error when one died that had copies
// to send, or ended without an answer to those that it sent.
func (t *Traffic) busy(ctx context.Context, p *mirror.Plan, version int64) (names []string, err error) {
	writers, err := t.Plans.Writers(ctx)
	if err != nil {
		return nil, err
	}
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(writers)) {
		w := writers[name]
		copies, silent := w.Topics[p.Topic], now.Sub(w.At)
		switch {
		case copies == nil:
		case copies.MayArrive(now):
			return nil,
				conflict(
					fmt.Sprintf(
						"a process ended before the new store had answered it: its copies may arrive for %.0f s more",
						(mirror.Gone-now.Sub(copies.Unanswered)).Seconds()), "run it again then", p.Topic)
		case w.Closed || silent > mirror.Gone:
		case silent > mirror.Silent && copies.Waiting() > 0:
			return nil,
				conflict(
					fmt.Sprintf(
						"process %s has not reported for %.0f s, and had %d copies to send, which may arrive for %.0f s more",
						name, silent.Seconds(), copies.Waiting(), (mirror.Gone-silent).Seconds()),
					"run it again then", p.Topic)
		case silent <= mirror.Silent && (copies.Sending > 0 || copies.Plan < version):
			names = append(names, name)
		}
	}
	return names, nil
}

// cancelDelayed removes copies that are not due, which cannot be claimed.
func (t *Traffic) cancelDelayed(ctx context.Context, topic string) error {
	inspector, ok := store.As[store.Inspector](t.To, store.CanLookup)
	if !ok {
		return nil
	}
	var ids []string
	for r, err := range inspector.List(ctx, store.Filter{Topic: topic, State: store.Delayed, Limit: store.MaxBatch}) {
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := inspector.Cancel(ctx, ids...) // what is refused is due now
	return err
}

// drain waits until the old store is worked off, and puts the new one in charge. It
// returns how many messages came late; then the topic is Draining again.
func (t *Traffic) drain(ctx context.Context, p *mirror.Plan, m Moving) (late int64, err error) {
	if p.Stage == mirror.Draining {
		if err := t.unpause(ctx, p, t.oldSide(p)); err != nil {
			return 0, err
		}
		if err := t.pause(ctx, p, t.newSide(p)); err != nil {
			return 0, err
		}
		if err := t.empty(ctx, p, m); err != nil {
			return 0, err
		}
		position, err := t.position(ctx, p)
		if err != nil {
			return 0, err
		}
		if err := t.put(ctx, p, mirror.Moved, func(p *mirror.Plan) { p.Position = position }); err != nil {
			return 0, err
		}
		// Processes that died with copies in their queues: all of the originals are done.
		err = t.forgetThose(ctx, func(w *mirror.Writer, now time.Time) bool {
			return w.Topics[p.Topic] != nil && len(w.Topics) == 1 && !w.Closed && now.Sub(w.At) > mirror.Gone
		})
		if err != nil {
			return 0, err
		}
	}
	if err := t.takeOver(ctx, p); err != nil {
		return 0, err
	}
	// An append that began long ago may end only now.
	_ = store.Sleep(ctx, settleTime)
	s, err := figures(ctx, t.from, p.Topic)
	if err != nil || unfinished(s) == 0 {
		return 0, err
	}
	return unfinished(s), t.put(ctx, p, mirror.Draining)
}

// empty waits until the old store has done everything.
func (t *Traffic) empty(ctx context.Context, p *mirror.Plan, m Moving) error {
	last := int64(-1)
	for began := time.Now(); ; {
		s, err := figures(ctx, t.from, p.Topic)
		if err != nil {
			return err
		}
		left := unfinished(s)
		switch {
		case left == 0:
			return nil
		case m.Timeout > 0 && time.Since(began) > m.Timeout:
			return unfinishedError(p,
				"the old store has %d messages that are not done (%d of them delayed); its workers have to go on",
				left, s.Delayed)
		case left != last:
			t.tell("the old store has %d messages of topic %s that are not done", left, p.Topic)
		}
		last = left
		if err := t.hold(ctx, p); err != nil {
			return err
		}
		if store.Sleep(ctx, moveLook) != nil {
			return errors.Join(unfinishedError(p, "the old store has %d messages that are not done", left),
				context.Cause(ctx))
		}
	}
}

// position is what both stores have appended.
func (t *Traffic) position(ctx context.Context, p *mirror.Plan) (*mirror.Figures, error) {
	here, there, err := t.both(ctx, p)
	return &mirror.Figures{Primary: here.Appended, Mirrored: there.Appended}, err
}
