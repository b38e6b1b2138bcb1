package gate

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// entry is what a reader has in its record of a position: all contenders find
// their place in it, so that none of them looks it up.
type entry struct {
	Ticket
	pos  int64
	done bool
	prev *entry
	next *entry
}

// contender keeps the finished prefix of a log. None of them admits more than a
// window of positions.
type contender interface {
	register(e *entry) bool // false: full
	ack(e *entry)
	advance() int64
}

type gated struct{ *Gate }

func (g gated) register(e *entry) bool { return g.Register(e.pos, &e.Ticket) == Admitted }
func (g gated) ack(e *entry)           { e.Ack() }
func (g gated) advance() int64         { return g.Advance() }

// mapped keeps unfinished and finished positions in a map.
type mapped struct {
	sync.Mutex
	base int64
	done map[int64]bool
}

func (m *mapped) register(e *entry) bool {
	m.Lock()
	defer m.Unlock()
	if e.pos-m.base >= Window {
		return false
	}
	m.done[e.pos] = false
	return true
}

func (m *mapped) ack(e *entry) {
	m.Lock()
	defer m.Unlock()
	if _, known := m.done[e.pos]; known {
		m.done[e.pos] = true
	}
}

func (m *mapped) advance() int64 {
	m.Lock()
	defer m.Unlock()
	for m.done[m.base] {
		delete(m.done, m.base)
		m.base++
	}
	return m.base
}

// heaped keeps the finished positions that the base has not reached in a heap.
type heaped struct {
	sync.Mutex
	base int64
	done positions
}

type positions []int64

func (p positions) Len() int           { return len(p) }
func (p positions) Less(i, j int) bool { return p[i] < p[j] }
func (p positions) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *positions) Push(pos any)      { *p = append(*p, pos.(int64)) }
func (p *positions) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

func (h *heaped) register(e *entry) bool {
	h.Lock()
	defer h.Unlock()
	return e.pos-h.base < Window
}

func (h *heaped) ack(e *entry) {
	h.Lock()
	defer h.Unlock()
	if !e.done {
		e.done = true
		heap.Push(&h.done, e.pos)
	}
}

func (h *heaped) advance() int64 {
	h.Lock()
	defer h.Unlock()
	for len(h.done) > 0 && h.done[0] == h.base {
		heap.Pop(&h.done)
		h.base++
	}
	return h.base
}

// linked keeps the unfinished positions in a list through their entries: an ack
// takes one out, and the first one is the base.
type linked struct {
	sync.Mutex
	tail        int64
	first, last *entry
}

func (l *linked) base() int64 {
	if l.first == nil {
		return l.tail
	}
	return l.first.pos
}

func (l *linked) register(e *entry) bool {
	l.Lock()
	defer l.Unlock()
	if e.pos-l.base() >= Window {
		return false
	}
	if e.prev = l.last; l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last, l.tail = e, e.pos+1
	return true
}

func (l *linked) ack(e *entry) {
	l.Lock()
	defer l.Unlock()
	if e.done {
		return
	}
	e.done = true
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

func (l *linked) advance() int64 {
	l.Lock()
	defer l.Unlock()
	return l.base()
}

// block is how many positions are registered and acked in one order.
const block = 1024

// orders say in which order the positions of a block are acked.
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

// BenchmarkLife is what a position costs from its registration to where the base
// has moved over it. With one goroutine the owner acks, without any channel. With
// more of them the owner registers ahead while they ack; they get entries in
// batches of 64 through a channel, which is in the figure, as the entry is.
func BenchmarkLife(b *testing.B) {
	for _, c := range []struct {
		name string
		make func() contender
	}{
		{"gate", func() contender { return gated{New(0)} }},
		{"map", func() contender { return &mapped{done: map[int64]bool{}} }},
		{"heap", func() contender { return new(heaped) }},
		{"list", func() contender { return new(linked) }},
	} {
		for _, o := range orders {
			for _, ackers := range []int{1, 4, 16} {
				b.Run(fmt.Sprintf("%s/%s/ackers=%d", c.name, o.name, ackers), func(b *testing.B) {
					b.ReportAllocs()
					live(b, c.make(), o.order(), ackers)
				})
			}
		}
	}
}

func live(b *testing.B, c contender, order []int, ackers int) {
	var group sync.WaitGroup
	queue := make(chan []*entry, 8)
	if ackers > 1 {
		for range ackers {
			group.Go(func() {
				for batch := range queue {
					for _, e := range batch {
						c.ack(e)
					}
				}
			})
		}
	}
	next := int64(0)
	for b.Loop() {
		entries := make([]entry, block)
		for i := range entries {
			e := &entries[i]
			e.pos = next
			for !c.register(e) {
				c.advance()
			}
			next++
		}
		acks := make([]*entry, block)
		for i, at := range order {
			acks[i] = &entries[at]
		}
		if ackers == 1 {
			for _, e := range acks {
				c.ack(e)
			}
		} else {
			for i := 0; i < block; i += 64 {
				queue <- acks[i : i+64]
			}
		}
		c.advance()
	}
	close(queue)
	group.Wait()
	if base := c.advance(); base != next {
		b.Fatalf("base %d, want %d", base, next)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next), "ns/pos")
}

// BenchmarkPosition is the gate alone: register, ack, and the share of an advance,
// in one goroutine, without the allocation of records.
func BenchmarkPosition(b *testing.B) {
	for _, o := range orders {
		b.Run(o.name, func(b *testing.B) {
			g, order, next := New(0), o.order(), int64(0)
			tickets := make([]Ticket, block)
			for b.Loop() {
				for i := range tickets {
					tickets[i] = Ticket{} // nobody has the old one
					g.Register(next, &tickets[i])
					next++
				}
				for _, i := range order {
					tickets[i].Ack()
				}
				g.Advance()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next), "ns/pos")
		})
	}
}

// BenchmarkAck is an ack alone: from one goroutine, and from as many as run, which
// share words.
func BenchmarkAck(b *testing.B) {
	prepare := func() []Ticket {
		g, tickets := New(0), make([]Ticket, Window)
		for i := range tickets {
			g.Register(int64(i), &tickets[i])
		}
		return tickets
	}
	for _, ackers := range []int{1, 2, 16} {
		b.Run(fmt.Sprintf("ackers=%d", ackers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				tickets := prepare()
				b.StartTimer()
				var group sync.WaitGroup
				for a := 1; a < ackers; a++ {
					group.Go(func() {
						for i := a; i < Window; i += ackers {
							tickets[i].Ack()
						}
					})
				}
				for i := 0; i < Window; i += ackers {
					tickets[i].Ack()
				}
				group.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/Window, "ns/ack")
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
		g.Unfinished()
		g.Backlog()
	}
}
