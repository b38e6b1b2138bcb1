package rank_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/dispatch/internal/rank"
)

// A queue sorts by rank and tie, whatever is put in and taken out in between.
func TestQueueHandsOutTheBest(t *testing.T) {
	type entry struct {
		rank  int64
		order int
	}
	rapid.Check(t, func(t *rapid.T) {
		var q rank.Queue[int]
		var model []entry // sorted by rank, stable
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				e := entry{rapid.Int64Range(-5, 5).Draw(t, "rank"), i}
				q.Push(e.rank, int64(e.order), e.order)
				model = append(model, e)
				slices.SortStableFunc(model, func(a, b entry) int { return int(a.rank - b.rank) })
				continue
			}
			want, _ := q.Peek()
			got, ok := q.Pop()
			if ok != (len(model) > 0) {
				t.Fatalf("ok %v with %d values", ok, len(model))
			}
			if !ok {
				continue
			}
			if got != model[0].order || want != got {
				t.Fatalf("got %d, peeked %d, want %+v", got, want, model[0])
			}
			model = model[1:]
		}
		if q.Len() != len(model) {
			t.Fatalf("%d left, want %d", q.Len(), len(model))
		}
		seen := 0
		for range q.All() {
			seen++
		}
		if seen != len(model) {
			t.Fatalf("All yields %d of %d", seen, len(model))
		}
	})
}

func BenchmarkPopPush(b *testing.B) {
	for _, waiting := range []int{1000, 1_000_000} {
		b.Run(strconv.Itoa(waiting), func(b *testing.B) {
			var q rank.Queue[*int]
			for range waiting {
				q.Push(rand.Int64(), 0, nil)
			}
			for b.Loop() {
				v, _ := q.Pop()
				q.Push(rand.Int64(), 0, v)
			}
		})
	}
}
