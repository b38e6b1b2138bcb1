package storetest_test

import (
	"cmp"
	"context"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

// brokenEntries are entries of which some methods are replaced.
type brokenEntries struct {
	*broken
	store.Shared
	onPut    func(key string, version *int64)
	onResult func(*store.Entry) // of any call
	onDelete func(version *int64)
	onList   func(prefix string, after int64) iter.Seq2[store.Entry, error]
	onLatest func(prefix string, before int64) iter.Seq2[store.Entry, error]
}

func (e *brokenEntries) result(got store.Entry, err error) (store.Entry, error) {
	if err == nil && e.onResult != nil {
		e.onResult(&got)
	}
	return got, err
}

func (e *brokenEntries) GetState(ctx context.Context, key string) (store.Entry, error) {
	return e.result(e.Shared.GetState(ctx, key))
}

func (e *brokenEntries) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if e.onPut != nil {
		e.onPut(key, &version)
	}
	return e.result(e.Shared.PutState(ctx, key, value, version, writer))
}

func (e *brokenEntries) DeleteState(ctx context.Context, key string, version int64) error {
	if e.onDelete != nil {
		e.onDelete(&version)
	}
	return e.Shared.DeleteState(ctx, key, version)
}

func (e *brokenEntries) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	if e.onList != nil {
		return e.onList(prefix, after)
	}
	return e.Shared.ListState(ctx, prefix, after)
}

func (e *brokenEntries) LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[store.Entry, error] {
	if e.onLatest != nil {
		return e.onLatest(prefix, before)
	}
	return e.Shared.LatestState(ctx, prefix, before)
}

func stateMutants() []mutant {
	entries := func(set func(*brokenEntries)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Shared](b.Store)
			e := &brokenEntries{broken: b, Shared: inner}
			set(e)
			return e
		}
	}
	listed := func(list func(e *brokenEntries, prefix string, after int64) iter.Seq2[store.Entry, error]) breakage {
		return entries(func(e *brokenEntries) {
			e.onList = func(prefix string, after int64) iter.Seq2[store.Entry, error] { return list(e, prefix, after) }
		})
	}
	return []mutant{
		{"stateComparesNothing", entries(func(e *brokenEntries) {
			e.onPut = func(_ string, v *int64) { *v = store.AnyVersion }
		}), []string{"StateComparesVersions"}},
		{"stateDeletesAnyVersion",
			entries(func(e *brokenEntries) { e.onDelete = func(v *int64) { *v = store.AnyVersion } }),
			[]string{"StateComparesVersions"}},
		{"stateVersionsByKey", entries(versionsByKey), []string{"StateVersionsGrow"}},
		{"statePrefixIsAPattern", listed(prefixAsPattern), []string{"StateListsByPrefix"}},
		{"stateListsAll", listed(func(e *brokenEntries, prefix string, _ int64) iter.Seq2[store.Entry, error] {
			return e.Shared.ListState(context.Background(), prefix, 0)
		}), []string{"StateListsWhatIsNew"}},
		{"stateListsByKey", listed(byKey), []string{"StateListsByPrefix"}},
		{"stateLatestIsTheOldest", entries(func(e *brokenEntries) {
			e.onLatest = func(prefix string, _ int64) iter.Seq2[store.Entry, error] {
				return e.Shared.ListState(context.Background(), prefix, 0)
			}
		}), []string{"StateListsTheLatest"}},
		{"stateLatestIgnoresTheVersion", entries(func(e *brokenEntries) {
			e.onLatest = func(prefix string, _ int64) iter.Seq2[store.Entry, error] {
				return e.Shared.LatestState(context.Background(), prefix, 0)
			}
		}), []string{"StateListsTheLatest"}},
		{"stateCutsText", entries(func(e *brokenEntries) {
			e.onResult = func(got *store.Entry) {
				value, _, _ := strings.Cut(string(got.Value), "\x00")
				got.Value = []byte(value)
			}
		}), []string{"StateIsKept"}},
	}
}

// versionsByKey counts the versions of every key for itself.
func versionsByKey(e *brokenEntries) {
	own := map[string]map[int64]int64{}
	e.onResult = func(got *store.Entry) {
		if own[got.Key] == nil {
			own[got.Key] = map[int64]int64{}
		}
		if own[got.Key][got.Version] == 0 {
			own[got.Key][got.Version] = int64(len(own[got.Key]) + 1)
		}
		got.Version = own[got.Key][got.Version]
	}
}

// prefixAsPattern matches as LIKE does.
func prefixAsPattern(e *brokenEntries, prefix string, after int64) iter.Seq2[store.Entry, error] {
	pattern := strings.NewReplacer("%", "*", "_", "?", "/", "|", "*", `\*`, "?", `\?`, "[", `\[`, `\`,
		`\\`).Replace(prefix) + "*"
	return func(yield func(store.Entry, error) bool) {
		for got, err := range e.Shared.ListState(context.Background(), "", after) {
			ok, _ := path.Match(pattern, strings.ReplaceAll(got.Key, "/", "|"))
			if (ok || err != nil) && !yield(got, err) {
				return
			}
		}
	}
}

func byKey(e *brokenEntries, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		var all []store.Entry
		for got, err := range e.Shared.ListState(context.Background(), prefix, after) {
			if err != nil {
				yield(got, err)
				return
			}
			all = append(all, got)
		}
		slices.SortFunc(all, func(a, b store.Entry) int { return cmp.Compare(a.Key, b.Key) })
		for _, got := range all {
			if !yield(got, nil) {
				return
			}
		}
	}
}
