package storetest_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/storetest"
)

// lacking is a memory store without some capabilities: it declares so, has none
// of their interfaces, and refuses what needs them.
type lacking struct {
	*broken
	declared store.Capabilities
}

func (l *lacking) Describe() store.Description {
	d := memory.Description()
	d.Capabilities = l.declared
	return d
}

// Unwrap hides what is below: interfaces are passed on one by one.
func (l *lacking) Unwrap() store.Store { return nil }

var errLacks = &store.Error{Op: "test", Code: store.ErrUnsupported}

// without takes capabilities from a memory store.
func without(lost ...store.Capability) breakage {
	return func(b *broken) store.Store {
		has := func(c store.Capability) bool { return !slices.Contains(lost, c) }
		if !has(store.CanRepeatBatch) {
			b = &broken{Store: batchIDIgnored(b), now: b.now}
		}
		l := &lacking{broken: &broken{Store: b, now: b.now}, declared: maps.Clone(memory.Description().Capabilities)}
		for _, c := range lost {
			l.declared[c] = store.Support{Note: "taken away"}
		}
		refuse := func(m *pawl.Message) bool {
			return !has(store.CanDelay) && m.Delay > 0 || !has(store.CanUnique) && m.Unique.Key != ""
		}
		l.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
			receipts, err := l.Store.Append(ctx, batch)
			for i := range receipts {
				if receipts[i].Err == nil && refuse(&batch.Items[i]) {
					receipts[i].Err = errLacks
				}
			}
			return receipts, err
		}
		l.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
			for _, s := range batch.Items {
				if s.Validate() == nil && (!has(store.CanEmitAtomic) && len(s.Emit) > 0 ||
					!has(store.CanDelay) && s.Hold > 0) {
					return nil, errLacks
				}
			}
			return l.Store.Settle(ctx, batch)
		}
		return l.with(has)
	}
}

// partial is a Shared that lacks some of it.
type partial struct {
	store.Shared
	has func(store.Capability) bool
}

func (p partial) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if !p.has(store.CanState) {
		return store.Entry{}, errLacks
	}
	return p.Shared.PutState(ctx, key, value, version, writer)
}

func (p partial) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	if !p.has(store.CanMarks) {
		return nil, errLacks
	}
	return p.Shared.PutMarks(ctx, marks...)
}

func (p partial) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	if !p.has(store.CanPace) {
		return nil, errLacks
	}
	return p.Shared.Reserve(ctx, paces...)
}

// with passes on the interfaces of the capabilities that are left, as the layers of a chain.
func (l *lacking) with(has func(store.Capability) bool) store.Store {
	shared, _ := store.As[store.Shared](l.Store)
	chain := store.Store(struct {
		*lacking
		partial
	}{l, partial{shared, has}})
	topics, _ := store.As[store.Topics](l.Store)
	if has(store.CanTopics) {
		chain = withTopics{chain, topics}
	}
	looker, _ := store.As[store.Inspector](l.Store)
	if has(store.CanLookup) {
		chain = withInspector{chain, looker}
	}
	dead, _ := store.As[store.DeadLetters](l.Store)
	if has(store.CanDeadLetters) {
		chain = withDead{chain, dead}
	}
	waker, _ := store.As[store.Waker](l.Store)
	if has(store.CanWake) {
		chain = withWaker{chain, waker}
	}
	results, _ := store.As[store.Results](l.Store)
	if has(store.CanResults) {
		chain = withResults{chain, results}
	}
	return chain
}

type (
	withTopics struct {
		store.Store
		store.Topics
	}
	withInspector struct {
		store.Store
		store.Inspector
	}
	withDead struct {
		store.Store
		store.DeadLetters
	}
	withWaker struct {
		store.Store
		store.Waker
	}
	withResults struct {
		store.Store
		store.Results
	}
)

func (w withTopics) Unwrap() store.Store    { return w.Store }
func (w withInspector) Unwrap() store.Store { return w.Store }
func (w withDead) Unwrap() store.Store      { return w.Store }
func (w withWaker) Unwrap() store.Store     { return w.Store }
func (w withResults) Unwrap() store.Store   { return w.Store }

// TestNeedsAreStated: each sentence passes on a store that has only what the sentence states.
func TestNeedsAreStated(t *testing.T) {
	optional := []store.Capability{
		store.CanTopics, store.CanLookup, store.CanDeadLetters, store.CanWake, store.CanState, store.CanMarks,
		store.CanPace, store.CanResults, store.CanDelay, store.CanUnique, store.CanEmitAtomic, store.CanRepeatBatch,
	}
	for _, s := range storetest.Sentences() {
		lost := slices.DeleteFunc(slices.Clone(optional), func(c store.Capability) bool {
			return slices.Contains(s.Needs, c)
		})
		m := mutant{rule: without(lost...)}
		if failed := storetest.Failing(t, m.harness(), s.Name); len(failed) > 0 {
			t.Errorf("%s needs more than it states: %q", s.Name, s.Needs)
		}
	}
}
