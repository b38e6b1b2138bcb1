package gate

import (
	"math/rand/v2"
	"testing"
)

// block is how many positions are registered and finished in one order.
const block = 1024

// orders say in which order the positions of a block are finished.
var orders = []struct {
	name  string
	order func() []int
}{
	{"ordered", func() []int {
		order := make([]int, block)
		for i := range order {
			order[i] = i
		}
		return order
	}},
	{"reversed64", func() []int {
		order := make([]int, block)
		for i := range order {
			order[i] = i/64*64 + 63 - i%64
		}
		return order
	}},
	{"random1024", func() []int { return rand.New(rand.NewPCG(1, 2)).Perm(block) }},
}

// BenchmarkPosition is what a position costs: register, finish, and the share of an advance.
func BenchmarkPosition(b *testing.B) {
	for _, o := range orders {
		b.Run(o.name, func(b *testing.B) {
			g, order, next := New(0), o.order(), int64(0)
			for b.Loop() {
				for i := range int64(block) {
					g.Register(next + i)
				}
				for _, i := range order {
					g.Finish(next + int64(i))
				}
				next = g.Advance()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next), "ns/pos")
		})
	}
}

// BenchmarkCheckpoint takes a checkpoint of a full window and writes its text; the
// figure "bytes" is that of the text. Decode reads it again.
func BenchmarkCheckpoint(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	unfinished := func(share float64) func(int64) bool {
		return func(int64) bool { return r.Float64() >= share }
	}
	for _, row := range []struct {
		name string
		done func(int64) bool
	}{
		{"idle", func(int64) bool { return false }},
		{"head", func(int64) bool { return true }},
		{"1%", unfinished(0.01)},
		{"5%", unfinished(0.05)},
		{"20%", unfinished(0.2)},
		{"50%", unfinished(0.5)},
		{"alternating", func(i int64) bool { return i%2 == 1 }},
	} {
		const base = 7e9
		c := pattern(base, Extra{}, row.done)
		g, text := Resume(base, c), ""
		extra := Extra{Source: 1, Open: true, Horizon: base + Window - 1}
		b.Run(row.name+"/text", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text = g.Checkpoint(extra).Text()
			}
			b.ReportMetric(float64(len(text)), "bytes")
		})
		b.Run(row.name+"/decode", func(b *testing.B) {
			for b.Loop() {
				if _, err := Decode(base, 1, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFigures is what a look at a gate costs.
func BenchmarkFigures(b *testing.B) {
	g := Resume(0, pattern(0, Extra{}, func(i int64) bool { return i%3 == 0 }))
	for b.Loop() {
		g.Backlog()
	}
}
