package laneheap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ n, place int }

func (i *item) SetPlace(p int) { i.place = p }

// What was pushed and not removed is popped in its order, whatever was removed in between.
func TestHeap(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	h := Heap[*item]{Less: func(a, b *item) bool { return a.n < b.n }}
	var in []*item
	for range 2000 {
		if len(in) > 0 && r.IntN(3) == 0 {
			i := r.IntN(len(in))
			if h.Lanes[in[i].place] != in[i] {
				t.Fatalf("seed %d: %d is not at its place", seed, in[i].n)
			}
			h.Remove(in[i].place)
			in = slices.Delete(in, i, i+1)
			continue
		}
		in = append(in, &item{n: r.IntN(500)})
		h.Push(in[len(in)-1])
	}
	slices.SortFunc(in, func(a, b *item) int { return a.n - b.n })
	for _, want := range in {
		if least := h.Lanes[0]; h.Pop() != least || least.n != want.n {
			t.Fatalf("seed %d: popped %d, want %d", seed, least.n, want.n)
		}
	}
	if len(h.Lanes) > 0 {
		t.Errorf("seed %d: %d are left", seed, len(h.Lanes))
	}
}
