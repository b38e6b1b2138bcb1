package storetest

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

var callSentences = []Sentence{
	{Text: "After Close every method returns ErrClosed, those of optional interfaces included.",
		Name: "ClosedStoreSaysSo", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			t.claimOne()
			t.must(t.Store.Close())
			t.answers(t.ctx(), store.ErrClosed)
		}},
	{Text: "Every method honours its context: with one that has ended it does nothing and says why.",
		Name: "ContextIsHonoured", Test: func(t *T) {
			t.put(t.msg("a"))
			t.answers(cancelled(), context.Canceled)
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
			most := store.Want{Topic: t.Topic, Limit: math.MaxInt}
			_, sum := t.Store.Claim(t.ctx(), []store.Want{most, most}, store.Lease{For: lease}) // overflows
			_, noLease := t.Store.Claim(t.ctx(), nil, store.Lease{})
			errs := []error{tooMany, sum, noLease}
			if t.has(store.CanLookup) {
				_, err := t.inspector().Get(t.ctx(), "none")
				errs = append(errs, err)
			}
			t.must(t.Store.Close())
			_, closed := t.Store.Append(t.ctx(), store.NewBatch(t.msg("x")))
			for _, err := range append(errs, closed) {
				e, ok := errors.AsType[*store.Error](err)
				t.check(ok && e.Op != "" && e.Code != nil, "error %v is no *store.Error with an operation and a code",
					err)
			}
		}},
	{Text: "A store says its name, the form of its URL, what durable means, and for every capability that it refuses why.",
		Name: "StoreDescribesItself", Test: func(t *T) {
			d := optional[store.Describer](t).Describe()
			t.check(d.Name != "" && d.URL != "" && d.Durability != "", "description %+v is not complete", d)
			for _, c := range store.AllCapabilities {
				s := d.Capabilities[c]
				t.check(s.Kept || s.Note != "", "%s is refused without a reason", c)
			}
			for c := range d.Capabilities {
				t.check(slices.Contains(store.AllCapabilities, c), "capability %q is not one of the contract's", c)
			}
		}},
	{Text: "The optional interface of a capability is there if, and only if, the capability is declared; a part of one that " +
		"is not declared answers ErrUnsupported.",
		Name: "DeclaredIsThere", Test: func(t *T) {
			d := optional[store.Describer](t).Describe()
			for c, there := range map[store.Capability]bool{
				store.CanTopics: implements[store.Topics](t), store.CanDeadLetters: implements[store.DeadLetters](t),
				store.CanWake: implements[store.Waker](t), store.CanResults: implements[store.Results](t),
			} {
				if there != d.Capabilities.Has(c) {
					t.Errorf("%s is declared: %t; its interface is there: %t", c, d.Capabilities.Has(c), there)
				}
			}
			if topics, ok := store.As[store.Topics](t.Store); ok && !t.has(store.CanBound) {
				full, err := topics.Full(t.ctx(), t.Topic)
				t.check(err == nil && len(full) == 0, "%+v are full, %v", full, err)
			}
			t.answers(t.ctx(), nil)
		}},
}

// answers checks that calls return want, nil for whatever they return, and that those of a part that is not declared
// are refused.
func (t *T) answers(ctx context.Context, want error) {
	for name, err := range t.calls(ctx) {
		switch c, part := parts[name]; {
		case part && !t.has(c) && want != nil: // it may be refused first
		case part && !t.has(c) && !errors.Is(err, store.ErrUnsupported):
			t.Errorf("%s, which is not declared: %v", name, err)
		case want != nil && !errors.Is(err, want):
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
}

// parts are the calls of an interface that may be there for others: by which capability.
var parts = map[string]store.Capability{
	"cancel": store.CanLookup, "run now": store.CanLookup, "skip": store.CanLookup,
	"replay keeping": store.CanResolve, "resolve": store.CanResolve, "reopen": store.CanResolve,
	"remove topic": store.CanRemove, "put state": store.CanState, "put marks": store.CanMarks, "reserve": store.CanPace,
}

// calls makes all calls of the interfaces that are there, and returns their errors by name.
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
		errs["list"] = firstError(i.List(ctx, store.Filter{}))
	}
	if i, ok := store.As[store.Inspector](s); ok {
		_, errs["cancel"] = i.Cancel(ctx, "none")
		_, errs["run now"] = i.RunNow(ctx, "none")
		_, errs["skip"] = i.Skip(ctx, "", "none")
	}
	if d, ok := store.As[store.DeadLetters](s); ok {
		_, errs["replay"] = d.Replay(ctx, "", "none")
		_, errs["purge"] = d.Purge(ctx, "none")
		_, errs["edit"] = d.Edit(ctx, store.Edit{ID: "none"})
		_, errs["import"] = d.Import(ctx, letter(t.msg("x"), "imported"))
		errs["dead"] = firstError(d.Dead(ctx, store.DeadFilter{}))
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
		errs["remove topic"] = o.RemoveTopic(ctx, t.Topic)
	}
	if e, ok := store.As[store.Shared](s, store.CanState); ok {
		_, errs["get state"] = e.GetState(ctx, "k")
		errs["delete state"] = e.DeleteState(ctx, "k", 0)
		errs["list state"] = firstError(e.ListState(ctx, "", 0))
		errs["latest state"] = firstError(e.LatestState(ctx, "", 0))
		_, errs["clock"] = e.Clock(ctx)
	}
	if e, ok := store.As[store.Shared](s); ok {
		_, errs["put state"] = e.PutState(ctx, "k", nil, 0, "")
		_, errs["put marks"] = e.PutMarks(ctx, mark("k", "v"))
		_, errs["reserve"] = e.Reserve(ctx, pace("k", 1, 0))
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

// implements reports whether the store has an optional interface.
func implements[I any](t *T) bool {
	_, ok := store.As[I](t.Store)
	return ok
}
