package migrate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

const (
	// moverPrefix is the prefix of the keys, in the state of the old store, under which a
	// process that moves a topic reports that it is alive.
	moverPrefix = "traffic/mover/"
	moverSays   = time.Second
	// moverGone is how long after the last report the move of a topic counts as abandoned.
	moverGone = 10 * time.Second
)

// mover is the process that moves a topic, according to the state of the old store.
type mover struct {
	version int64 // of its entry; 0: there is none
	there   bool
}

func (t *Traffic) moverOf(ctx context.Context, topic string) (m mover, err error) {
	entries, ok := store.As[store.Shared](t.From)
	if !ok {
		return m, nil
	}
	e, err := entries.GetState(ctx, moverPrefix+topic)
	if errors.Is(err, store.ErrNotFound) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	now, err := t.Plans.Clock(ctx)
	return mover{e.Version, now.Sub(e.At) < moverGone}, err
}

// attend reports that a topic is being moved, until the function it returns is called. With
// a version it does so only if no other process has begun to; [store.AnyVersion] is for a
// command that was given by a person. The returned function withdraws the report, unless
// the move is left half done.
func (t *Traffic) attend(ctx context.Context, topic string, version int64) (end func(done bool), err error) {
	entries, ok := store.As[store.Shared](t.From)
	if !ok {
		return func(bool) {}, nil
	}
	say := func(version int64) error {
		_, err := entries.PutState(ctx, moverPrefix+topic, nil, version, t.Who)
		return err
	}
	if err := say(version); err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		tick := time.NewTicker(moverSays)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = say(store.AnyVersion) // again in a second
			case <-ctx.Done():
				return
			case <-over:
				return
			}
		}
	})
	return func(done bool) {
		close(over)
		saying.Wait()
		if !done {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moverGone)
		defer cancel()
		_ = entries.DeleteState(ctx, moverPrefix+topic, store.AnyVersion) // or it will soon count as gone
	}, nil
}

// abandoned reports whether a cut-over or a roll-back was begun that no process
// continues.
func abandoned(p *mirror.Plan, m mover) bool {
	return !m.there && (p.Stage == mirror.Draining || p.Stage == mirror.Moved && m.version > 0 || returning(p))
}

// returning reports whether a roll-back is under way.
func returning(p *mirror.Plan) bool {
	return p.Stage == mirror.Returning || p.Stage == mirror.Closing && p.From == mirror.Returning
}

// killed reports whether the process of an abandoned move was killed. A roll-back that ended by an error is left to the
// person who began it: the new store stays in charge meanwhile, and every try closes the topic for some seconds.
func killed(p *mirror.Plan, m mover) bool { return abandoned(p, m) && (m.version > 0 || !returning(p)) }

// Abandoned returns the topics whose cut-over or roll-back was abandoned: its process was killed.
func (t *Traffic) Abandoned(ctx context.Context) (topics []string, err error) {
	plans, err := t.Plans.List(ctx)
	for _, p := range plans {
		m, asked := t.moverOf(ctx, p.Topic)
		if err = errors.Join(err, asked); asked == nil && killed(p, m) {
			topics = append(topics, p.Topic)
		}
	}
	return topics, err
}

// Finish continues a cut-over or a roll-back whose process was killed, and returns its name, such as "cut-over"; ""
// if there is nothing to continue, or another process does.
func (t *Traffic) Finish(ctx context.Context, topic string) (what string, err error) {
	p, err := t.plan(ctx, topic)
	if err != nil {
		return "", err
	}
	m, err := t.moverOf(ctx, topic)
	if err != nil || !killed(p, m) {
		return "", err
	}
	if now, err := t.Plans.Clock(ctx); err != nil || p.Stage == mirror.Closing && now.Before(p.Until) {
		return "", err // it is open again soon
	}
	end, err := t.attend(ctx, topic, m.version)
	if errors.Is(err, store.ErrConflict) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !returning(p) {
		err = t.drainAll(ctx, p, Moving{})
		end(err == nil)
		return t.finished(ctx, "cut-over", p, 1, err)
	}
	var done Moved
	if err = t.reopen(ctx, p, false); err == nil {
		err = t.bringBack(ctx, p, Moving{}, &done)
	}
	end(err == nil || ctx.Err() == nil)
	return t.finished(ctx, "roll-back", p, done.Carried, err)
}

func (t *Traffic) finished(ctx context.Context, what string, p *mirror.Plan, count int64, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return what, t.audit(ctx, what, p, count, "carried on by a worker", "its process had ended")
}

// finisherLooks is how often a worker looks for an abandoned cut-over or roll-back.
const finisherLooks = 5 * time.Second

// Finisher carries on, in a worker, cut-overs and roll-backs whose processes were killed.
type Finisher struct {
	From store.Store // may be a mirror: it is only asked what there is to carry on
	// Open opens both stores, the old one without a mirror: what is carried back through one would go to the new
	// store again. It is called when there is something to carry on; the finisher closes what it returns.
	Open   func(context.Context) (from, to store.Store, err error)
	Who    string
	Target string // the URL of that store, without a password
	Logger *slog.Logger
}

// Run does so until ctx ends.
func (f *Finisher) Run(ctx context.Context) {
	plans, err := mirror.OpenPlans(f.From)
	if err != nil {
		return // nothing can move from such a store
	}
	look := &Traffic{From: f.From, Plans: plans, Who: f.Who, Target: f.Target}
	for store.Sleep(ctx, finisherLooks) == nil {
		topics, err := look.Abandoned(ctx)
		if err == nil && len(topics) > 0 {
			err = f.finish(ctx, topics)
		}
		if err != nil && ctx.Err() == nil {
			f.Logger.Warn("cannot carry on with a move of topics whose process has ended", "error", err)
		}
	}
}

func (f *Finisher) finish(ctx context.Context, topics []string) error {
	from, to, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close(); _ = to.Close() }() // every call to them was answered
	t, err := New(ctx, from, to, f.Who, f.Target)
	if err != nil {
		return err
	}
	var errs []error
	for _, topic := range topics {
		what, err := t.Finish(ctx, topic)
		if what != "" {
			f.Logger.Info("carried on with a "+what+" whose process had ended", "topic", topic, "store", f.Target)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
