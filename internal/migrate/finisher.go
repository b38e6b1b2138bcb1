package migrate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

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
