package storetest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/pawl-dev/pawl/store"
)

var closeSentences = []Sentence{
	{Text: "After Close every method returns ErrClosed, those of optional interfaces included.",
		Name: "ClosedStoreSaysSo", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			t.claimOne()
			t.must(t.Store.Close())
			for name, err := range t.calls(t.ctx()) {
				if !errors.Is(err, store.ErrClosed) {
					t.Errorf("%s after Close: %v; want %v", name, err, store.ErrClosed)
				}
			}
		}},
	{Text: "Every method honours its context: with one that has ended it does nothing and says why.",
		Name: "ContextIsHonoured", Test: func(t *T) {
			t.put(t.msg("a"))
			for name, err := range t.calls(cancelled()) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s with a context that has ended: %v; want %v", name, err, context.Canceled)
				}
			}
			if t.has(store.CanTopics) {
				t.wantSettings(store.NewTopic(t.Topic))
				t.wantStats(store.TopicStats{Appended: 1, Waiting: 1})
			}
			d := t.claims("a")[0]
			t.wantErr(errOf(t.Store.Settle(cancelled(), store.NewBatch(verdict(d, store.Ack)))), context.Canceled)
			t.wantErr(errOf(t.Store.Extend(cancelled(), lease, d.Token)), context.Canceled)
			t.ack(d)
			t.nothing()
		}},
	{Text: "Errors of a store wrap one of the contract's, where it fits, and name the operation.",
		Name: "ErrorsSayWhatTheyDid", Test: func(t *T) {
			_, tooMany := t.Store.Claim(t.ctx(), []store.Want{{Topic: t.Topic, Limit: store.MaxBatch + 1}},
				store.Lease{For: lease})
			_, noLease := t.Store.Claim(t.ctx(), nil, store.Lease{})
			errs := []error{tooMany, noLease}
			if t.has(store.CanLookup) {
				_, err := t.inspector().Get(t.ctx(), "none")
				errs = append(errs, err)
			}
			t.must(t.Store.Close())
			_, closed := t.Store.Append(t.ctx(), store.NewBatch(t.msg("x")))
			for _, err := range append(errs, closed) {
				e, ok := errors.AsType[*store.Error](err)
				if !ok || e.Op == "" || e.Code == nil {
					t.Errorf("error %v is no *store.Error with an operation and a code", err)
				}
			}
		}},
}

// calls are all methods of a store, by name, the optional ones if they are there.
func (t *T) calls(ctx context.Context) map[string]error {
	errs := map[string]error{}
	s := t.Store
	_, errs["append"] = s.Append(ctx, store.NewBatch(t.msg("x")))
	_, errs["claim"] = s.Claim(ctx, []store.Want{{Topic: t.Topic, Limit: 1}}, store.Lease{For: lease})
	_, errs["settle"] = s.Settle(ctx, store.NewBatch(store.Settlement{Verdict: store.Ack}))
	token := store.Settlement{}.Token
	_, errs["extend"] = s.Extend(ctx, time.Minute, token)
	if i, ok := store.As[store.Inspector](s, store.CanLookup); ok {
		_, errs["get"] = i.Get(ctx, "none")
		_, errs["cancel"] = i.Cancel(ctx, "none")
		_, errs["run now"] = i.RunNow(ctx, "none")
		_, errs["skip"] = i.Skip(ctx, "", "none")
		errs["list"] = firstError(i.List(ctx, store.Filter{}))
	}
	if d, ok := store.As[store.DeadLetters](s); ok {
		_, errs["replay"] = d.Replay(ctx, "", "none")
		_, errs["purge"] = d.Purge(ctx, "none")
		_, errs["amend"] = d.Amend(ctx, store.Amendment{ID: "none"})
		_, errs["bury"] = d.Bury(ctx, letter(t.msg("x"), "buried"))
		errs["dead"] = firstError(d.Dead(ctx, store.DeadFilter{}))
	}
	if d, ok := store.As[store.DeadLetters](s); ok && store.Can(s, store.CanTriage) {
		_, errs["replay keeping"] = d.ReplayKeeping(ctx, "", "none")
		_, errs["resolve"] = d.Resolve(ctx, "", "", "none")
		_, errs["reopen"] = d.Reopen(ctx, "none")
	}
	if w, ok := store.As[store.Waker](s); ok {
		_, errs["listen"] = w.Listen(ctx, t.Topic)
	}
	if o, ok := store.As[store.Topics](s); ok {
		_, errs["topic"] = o.Topic(ctx, t.Topic)
		_, errs["declare"] = o.Declare(ctx, store.Declaration{Name: t.Topic, Deadline: time.Hour})
		_, errs["alter"] = o.Alter(ctx, store.NewTopic(t.Topic))
		errs["pause"] = o.Pause(ctx, t.Topic, 0, "", "")
		errs["resume"] = o.Resume(ctx, t.Topic)
		_, errs["stats"] = o.Stats(ctx)
	}
	if r, ok := store.As[store.Topics](s); ok && store.Can(s, store.CanRemove) {
		errs["remove topic"] = r.RemoveTopic(ctx, t.Topic)
	}
	if e, ok := store.As[store.Shared](s, store.CanState); ok {
		_, errs["get state"] = e.GetState(ctx, "k")
		_, errs["put state"] = e.PutState(ctx, "k", nil, 0, "")
		errs["delete state"] = e.DeleteState(ctx, "k", 0)
		errs["list state"] = firstError(e.ListState(ctx, "", 0))
		_, errs["clock"] = e.Clock(ctx)
	}
	return errs
}

// firstError returns what a listing begins with; nil if it is empty.
func firstError[E any](seq iter.Seq2[E, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
