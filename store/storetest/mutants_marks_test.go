package storetest_test

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// brokenMarks are marks of which some methods are replaced.
type brokenMarks struct {
	*broken
	store.Shared
	onPut    func(*pawl.Mark)
	onFound  func(*store.Marked)
	onList   func(scope, prefix string) iter.Seq2[store.Marked, error]
	onForget func(ctx context.Context, scope string) error
}

func (b *brokenMarks) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	marks = slices.Clone(marks)
	for i := range marks {
		if b.onPut != nil {
			b.onPut(&marks[i])
		}
	}
	return b.Shared.PutMarks(ctx, marks...)
}

func (b *brokenMarks) GetMarks(ctx context.Context, scope string, keys ...string) (map[string]store.Marked, error) {
	found, err := b.Shared.GetMarks(ctx, scope, keys...)
	for key, m := range found {
		if b.onFound != nil {
			b.onFound(&m)
			found[key] = m
		}
	}
	return found, err
}

func (b *brokenMarks) ListMarks(ctx context.Context, scope, prefix string) iter.Seq2[store.Marked, error] {
	if b.onList != nil {
		return b.onList(scope, prefix)
	}
	return b.Shared.ListMarks(ctx, scope, prefix)
}

func (b *brokenMarks) Forget(ctx context.Context, scope string) error {
	if b.onForget != nil {
		return b.onForget(ctx, scope)
	}
	return b.Shared.Forget(ctx, scope)
}

func markMutants() []mutant {
	marks := func(set func(*brokenMarks)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Shared](b.Store, store.CanMarks)
			m := &brokenMarks{broken: b, Shared: inner}
			set(m)
			return m
		}
	}
	putting := func(change func(*pawl.Mark)) breakage {
		return marks(func(b *brokenMarks) { b.onPut = change })
	}
	return []mutant{
		{"lastMarkWins", putting(func(m *pawl.Mark) {
			if m.If == 0 && !m.Remove {
				m.If = store.AnyVersion
			}
		}), []string{"FirstMarkWins"}},
		{"marksCompareNothing", putting(func(m *pawl.Mark) {
			if m.If > 0 {
				m.If = store.AnyVersion
			}
		}), []string{"MarksCompareVersions"}},
		{"marksNeverExpire", putting(func(m *pawl.Mark) {
			if m.For > 0 {
				m.For = pawl.MaxDelay
			}
		}), []string{"MarksExpire"}},
		{"marksFoldCase", putting(func(m *pawl.Mark) { m.Scope = strings.ToLower(m.Scope) }), []string{"MarksAreKept"}},
		{"marksCutText", marks(func(b *brokenMarks) {
			b.onFound = func(m *store.Marked) {
				value, _, _ := strings.Cut(string(m.Value), "\x00")
				m.Value = []byte(value)
			}
		}), []string{"MarksAreKept"}},
		{"marksListAnyPrefix", marks(func(b *brokenMarks) {
			b.onList = func(scope, _ string) iter.Seq2[store.Marked, error] {
				return b.Shared.ListMarks(context.Background(), scope, "")
			}
		}), []string{"MarksListByKey"}},
		{"marksListByVersion", marks(func(b *brokenMarks) { b.onList = b.byVersion }), []string{"MarksListByKey"}},
		{"acksMarkNothing", settling(func(s *store.Settlement) { s.Marks = nil }),
			[]string{"MarksComeWithTheAck", "MarksOfABatchFollow"}},
		{"acksMarkAnyway", settling(func(s *store.Settlement) {
			s.Marks = slices.Clone(s.Marks)
			for i := range s.Marks {
				s.Marks[i].If = store.AnyVersion
			}
		}), []string{"MarksComeWithTheAck", "MarksOfABatchFollow"}},
		{"staleAcksMark", func(b *broken) store.Store {
			b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
				for i := range batch.Items {
					if marks, ok := store.As[store.Shared](b.Store, store.CanMarks); ok && len(batch.Items[i].Marks) > 0 {
						_, _ = marks.PutMarks(ctx, batch.Items[i].Marks...)
					}
				}
				return b.Store.Settle(ctx, batch)
			}
			return b
		}, []string{"MarksNeverWithoutTheAck", "MarksGoWithAckOnly"}},
		{"forgetLeavesUniqueKeys", marks(func(b *brokenMarks) { b.onForget = b.forgetMarksOnly }),
			[]string{"ForgetFreesUniqueKeys"}},
		{"forgetForgetsNothing", marks(func(b *brokenMarks) {
			b.onForget = func(context.Context, string) error { return nil }
		}), []string{"ForgetRemovesAScope", "ForgetFreesUniqueKeys"}},
	}
}

// byVersion lists in the order of versions.
func (b *brokenMarks) byVersion(scope, prefix string) iter.Seq2[store.Marked, error] {
	all := map[int64]store.Marked{}
	for m, err := range b.Shared.ListMarks(context.Background(), scope, prefix) {
		if err == nil {
			all[m.Version] = m
		}
	}
	return func(yield func(store.Marked, error) bool) {
		for _, m := range slices.SortedFunc(maps.Values(all),
			func(a, b store.Marked) int { return cmp.Compare(a.Version, b.Version) }) {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// forgetMarksOnly removes the marks of a scope one by one.
func (b *brokenMarks) forgetMarksOnly(ctx context.Context, scope string) error {
	for m, err := range b.Shared.ListMarks(ctx, scope, "") {
		if err != nil {
			return err
		}
		if _, err := b.Shared.PutMarks(ctx, pawl.Mark{Scope: scope, Key: m.Key, If: store.AnyVersion,
			Remove: true}); err != nil {
			return err
		}
	}
	return nil
}
