package storetest_test

import (
	"context"
	"errors"
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

var errLacks = errors.New("this store lacks it")

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

// values are the interfaces that are passed on together.
type values struct {
	store.Entries
	store.Marks
	store.Pacer
	store.Results
}

// others are the interfaces beside values.
type others struct {
	*lacking
	store.Topics
	store.Inspector
	store.DeadLetters
	store.Waker
}

// with passes on the interfaces of the capabilities that are left.
func (l *lacking) with(has func(store.Capability) bool) store.Store {
	topics, _ := store.As[store.Topics](l.Store)
	looker, _ := store.As[store.Inspector](l.Store)
	dead, _ := store.As[store.DeadLetters](l.Store)
	waker, _ := store.As[store.Waker](l.Store)
	kept := values{}
	kept.Entries, _ = store.As[store.Entries](l.Store)
	kept.Marks, _ = store.As[store.Marks](l.Store)
	kept.Pacer, _ = store.As[store.Pacer](l.Store)
	kept.Results, _ = store.As[store.Results](l.Store)
	if !has(store.CanState) || !has(store.CanMarks) || !has(store.CanPace) || !has(store.CanResults) {
		return l.withSome(has, kept)
	}
	switch {
	case !has(store.CanTopics):
		return struct {
			*lacking
			store.Inspector
			store.DeadLetters
			store.Waker
			values
		}{l, looker, dead, waker, kept}
	case !has(store.CanLookup) && !has(store.CanDeadLetters):
		return struct {
			*lacking
			store.Topics
			store.Waker
			values
		}{l, topics, waker, kept}
	case !has(store.CanLookup):
		return struct {
			*lacking
			store.Topics
			store.DeadLetters
			store.Waker
			values
		}{l, topics, dead, waker, kept}
	case !has(store.CanDeadLetters):
		return struct {
			*lacking
			store.Topics
			store.Inspector
			store.Waker
			values
		}{l, topics, looker, waker, kept}
	case !has(store.CanWake):
		return struct {
			*lacking
			store.Topics
			store.Inspector
			store.DeadLetters
			values
		}{l, topics, looker, dead, kept}
	default:
		return struct {
			*lacking
			store.Topics
			store.Inspector
			store.DeadLetters
			store.Waker
			values
		}{l, topics, looker, dead, waker, kept}
	}
}

// withSome is with, of values that are passed on in part.
func (l *lacking) withSome(has func(store.Capability) bool, kept values) store.Store {
	o := others{lacking: l}
	o.Topics, _ = store.As[store.Topics](l.Store)
	o.Inspector, _ = store.As[store.Inspector](l.Store)
	o.DeadLetters, _ = store.As[store.DeadLetters](l.Store)
	o.Waker, _ = store.As[store.Waker](l.Store)
	switch {
	case !has(store.CanState):
		return struct {
			others
			store.Marks
			store.Pacer
			store.Results
		}{o, kept.Marks, kept.Pacer, kept.Results}
	case !has(store.CanMarks):
		return struct {
			others
			store.Entries
			store.Pacer
			store.Results
		}{o, kept.Entries, kept.Pacer, kept.Results}
	case !has(store.CanPace):
		return struct {
			others
			store.Entries
			store.Marks
			store.Results
		}{o, kept.Entries, kept.Marks, kept.Results}
	default:
		return struct {
			others
			store.Entries
			store.Marks
			store.Pacer
		}{o, kept.Entries, kept.Marks, kept.Pacer}
	}
}

// TestNeedsAreStated: a sentence states what it needs. On a store that lacks
// something, what is not refused passes.
func TestNeedsAreStated(t *testing.T) {
	for _, lost := range [][]store.Capability{
		nil, {store.CanTopics}, {store.CanLookup}, {store.CanDeadLetters}, {store.CanLookup, store.CanDeadLetters},
		{store.CanWake},
		{store.CanState}, {store.CanMarks}, {store.CanPace}, {store.CanResults},
		{store.CanDelay}, {store.CanUnique}, {store.CanEmitAtomic}, {store.CanRepeatBatch},
	} {
		name := "everything"
		if len(lost) > 0 {
			name = string(lost[len(lost)-1])
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mutant{rule: without(lost...)}
			if failed := storetest.Failing(t, m.harness()); len(failed) > 0 {
				t.Errorf("%q need more than they state", failed)
			}
		})
	}
}
