package rank_test

import (
	"container/heap"
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

// byHeap is the same order by container/heap, to compare with.
type byHeap []item

type item struct {
	rank, tie int64
	value     *int
}

func (h byHeap) Len() int { return len(h) }

func (h byHeap) Less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].tie < h[j].tie
}

func (h byHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byHeap) Push(x any)   { *h = append(*h, x.(item)) } //nolint:forcetypeassert // nothing else is pushed

func (h *byHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// A pop and a push with that many waiting; with a million the goal is 400 ns.
func BenchmarkPopPush(b *testing.B) {
	for _, waiting := range []int{1000, 1_000_000} {
		b.Run("queue/"+strconv.Itoa(waiting), func(b *testing.B) {
			var q rank.Queue[*int]
			for range waiting {
				q.Push(rand.Int64(), 0, nil)
			}
			for b.Loop() {
				v, _ := q.Pop()
				q.Push(rand.Int64(), 0, v)
			}
		})
		b.Run("container_heap/"+strconv.Itoa(waiting), func(b *testing.B) {
			var h byHeap
			for range waiting {
				heap.Push(&h, item{rank: rand.Int64(), value: nil})
			}
			for b.Loop() {
				next := heap.Pop(&h).(item) //nolint:forcetypeassert // nothing else is pushed
				next.rank = rand.Int64()
				heap.Push(&h, next)
			}
		})
	}
}
