package migrate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// finisherLooks is how often a worker looks for a cut-over that nobody carries on.
const finisherLooks = 5 * time.Second

// Finisher carries on, in a worker, cut-overs whose processes were killed.
type Finisher struct {
	From store.Store
	// Open opens the store that topics move to. It is called when there is something to
	// carry on; the finisher closes what it returns.
	Open   func(context.Context) (store.Store, error)
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
			f.Logger.Warn("cannot carry on with a cut-over whose process has ended", "error", err)
		}
	}
}

func (f *Finisher) finish(ctx context.Context, topics []string) error {
	to, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // nothing was appended to it
	t, err := New(ctx, f.From, to, f.Who, f.Target)
	if err != nil {
		return err
	}
	var errs []error
	for _, topic := range topics {
		done, err := t.Finish(ctx, topic)
		if done {
			f.Logger.Info("carried on with a cut-over whose process had ended: the new store is in charge", "topic",
				topic, "store", f.Target)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
