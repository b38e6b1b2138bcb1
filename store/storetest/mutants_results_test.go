package storetest_test

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/store"
)

// brokenResults are results of which some methods are replaced.
type brokenResults struct {
	*broken
	store.Results
	onScan   func(results []store.Result, next *int64) []store.Result
	onRemove func(upTo *int64)
}

func (b *brokenResults) ScanResults(ctx context.Context, topic string, after int64, limit int) ([]store.Result,
	int64, error) {
	results, next, err := b.Results.ScanResults(ctx, topic, after, limit)
	if err == nil && b.onScan != nil {
		results = b.onScan(results, &next)
	}
	return results, next, err
}

func (b *brokenResults) RemoveResults(ctx context.Context, topic string, upTo int64) (int64, error) {
	if b.onRemove != nil {
		b.onRemove(&upTo)
	}
	return b.Results.RemoveResults(ctx, topic, upTo)
}

func resultMutants() []mutant {
	with := func(set func(*brokenResults)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Results](b.Store)
			r := &brokenResults{broken: b, Results: inner}
			set(r)
			return r
		}
	}
	scanning := func(change func(results []store.Result, next *int64) []store.Result) breakage {
		return with(func(b *brokenResults) { b.onScan = change })
	}
	return []mutant{
		{"resultsByPriority", scanning(func(results []store.Result, _ *int64) []store.Result {
			slices.SortStableFunc(results, func(a, b store.Result) int { return cmp.Compare(b.Priority, a.Priority) })
			return results
		}), []string{"ResultsComeInOrder"}},
		{"resultsCursorGoesPast", scanning(func(results []store.Result, next *int64) []store.Result {
			*next += 2
			return results
		}), []string{"ResultsGoOnFromACursor"}},
		{"resultsCursorStays", scanning(func(results []store.Result, next *int64) []store.Result {
			if len(results) > 1 {
				*next = results[len(results)-2].Cursor
			}
			return results
		}), []string{"ResultsComeInOrder"}},
		{"resultsWithoutHeaders", scanning(func(results []store.Result, _ *int64) []store.Result {
			for i := range results {
				results[i].Headers = nil
			}
			return results
		}), []string{"ResultsAreWhole"}},
		{"removesAllResults", with(func(b *brokenResults) { b.onRemove = func(upTo *int64) { *upTo += 1000 } }),
			[]string{"ResultsAreRemoved"}},
	}
}
