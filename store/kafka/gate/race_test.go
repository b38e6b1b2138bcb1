package gate

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// work is a record with the result of its work, which is written without any
// synchronisation but the ack.
type work struct {
	Ticket
	result int64
	acks   atomic.Int32 // that counted
}

// TestAcksWhileAdvancing has ten goroutines ack what one registers, each position
// twice, and some from two goroutines at once. What the base has moved over must be
// done, and its result be visible to the owner: the race detector sees that too.
func TestAcksWhileAdvancing(t *testing.T) {
	const ackers, total = 10, 100_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	g, queue := New(5), make(chan *work, 4096)
	var group sync.WaitGroup
	for i := range ackers {
		group.Go(func() { ackAtRandom(rand.New(rand.NewPCG(seed, uint64(i)+2)), queue) })
	}
	var all, pending []*work // in order; not known to be finished
	settle := func() {
		base := g.Advance()
		for len(pending) > 0 && pending[0].Pos() < base {
			if w := pending[0]; w.result != w.Pos() {
				t.Errorf("the base is %d, and %d is not done", base, w.Pos())
			}
			pending = pending[1:]
		}
	}
	next := int64(5)
	for range total {
		if r.IntN(100) == 0 {
			next += r.Int64N(100)
		}
		w := new(work)
		for g.Register(next, &w.Ticket) == Full {
			settle()
			runtime.Gosched()
		}
		all, pending = append(all, w), append(pending, w)
		next++
		queue <- w
		switch r.IntN(200) {
		case 0:
			settle()
		case 1, 2:
			c := g.Checkpoint(Extra{})
			if _, err := Decode(c.Base, 0, c.Text()); err != nil || c.Has(c.Base) {
				t.Errorf("checkpoint under acks: base %d finished %v, %v", c.Base, c.Has(c.Base), err)
			}
		}
	}
	close(queue)
	group.Wait()
	settle()
	if g.Base() != next || g.Unfinished() != 0 || g.Backlog() != 0 || len(pending) != 0 {
		t.Errorf("base %d, want %d; unfinished %d, backlog %d", g.Base(), next, g.Unfinished(), g.Backlog())
	}
	for _, w := range all {
		if n := w.acks.Load(); n != 1 {
			t.Errorf("%d acks of %d count", n, w.Pos())
		}
	}
}

// ackAtRandom acks what it gets, some of it later, until the queue is closed. It
// holds nothing while it waits: the owner may wait for just that.
func ackAtRandom(r *rand.Rand, queue <-chan *work) {
	var held []*work
	for {
		var w *work
		more := true
		if len(held) == 0 {
			w, more = <-queue
		} else {
			select {
			case w, more = <-queue:
			default:
			}
		}
		switch {
		case w != nil:
			held = append(held, w)
		case len(held) > 0: // none at once
			for _, w := range held {
				w.finish(false)
			}
			held = held[:0]
		}
		if len(held) > 50 {
			i := r.IntN(len(held))
			held[i].finish(r.IntN(8) == 0)
			held[i], held = held[len(held)-1], held[:len(held)-1]
		}
		if !more {
			return
		}
	}
}

// finish acks twice, or from a second goroutine as well.
func (w *work) finish(twins bool) {
	ack := func() {
		if w.Ack() {
			w.acks.Add(1)
		}
	}
	w.result = w.Pos()
	var twin sync.WaitGroup
	if twins {
		twin.Go(ack)
	}
	ack()
	ack()
	twin.Wait()
}

// TestNeighboursDoNotLoseBits has acks, gaps and advances change one word at the
// same time: an ack that was lost would hold up the base for ever.
func TestNeighboursDoNotLoseBits(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	g, queue := New(0), make(chan *Ticket, 4)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for ticket := range queue {
				ticket.Ack()
			}
		})
	}
	next, stuck := int64(0), 0
	for range 300_000 {
		next += r.Int64N(3)
		ticket := new(Ticket)
		for g.Register(next, ticket) == Full { // an acker sleeps with a ticket in its hand
			if stuck++; stuck > 10_000_000 {
				t.Fatalf("the base stays at %d", g.Base())
			}
			runtime.Gosched()
		}
		stuck = 0
		next++
		queue <- ticket
		g.Advance()
	}
	close(queue)
	group.Wait()
	if base := g.Advance(); base != next {
		t.Errorf("base %d, want %d", base, next)
	}
}

func TestOneOfTwoAcksCounts(t *testing.T) {
	for range 100 {
		const each = 1000
		tickets := register(t, New(0), upTo(0, each)...)
		var counted atomic.Int32
		var ready, group sync.WaitGroup
		ready.Add(2)
		for range 2 {
			group.Go(func() {
				ready.Done()
				ready.Wait()
				for _, ticket := range tickets {
					if ticket.Ack() {
						counted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if n := counted.Load(); n != each {
			t.Fatalf("%d acks of %d tickets count", n, each)
		}
	}
}

// TestAckRacesClose closes a gate under its ackers: the checkpoint that is taken at
// once has just those whose ack returned true, and nothing changes it later.
func TestAckRacesClose(t *testing.T) {
	const ackers, each = 8, 16
	lates := uint64(0)
	for round := range 2000 {
		g := New(int64(round) * 3)
		tickets := register(t, g, upTo(g.Base(), g.Base()+ackers*each)...)
		var counted [ackers * each]bool
		var group sync.WaitGroup
		var started atomic.Int32
		for a := range ackers {
			group.Go(func() {
				started.Add(1)
				for i := range each {
					counted[i*ackers+a] = tickets[i*ackers+a].Ack()
				}
			})
		}
		for started.Load() < int32(round%(ackers+1)) {
			runtime.Gosched()
		}
		g.Close()
		c := g.Checkpoint(Extra{})
		group.Wait()
		late := uint64(0)
		for i, in := range counted {
			if pos := tickets[i].Pos(); c.Has(pos) != in {
				t.Fatalf("round %d: the ack of %d returned %v, and the checkpoint says %v", round, pos, in, c.Has(pos))
			}
			if !in {
				late++
			}
		}
		if g.Late() != late || g.Checkpoint(Extra{}).Text() != c.Text() {
			t.Fatalf("round %d: late %d, want %d; checkpoint %q, then %q", round, g.Late(), late, c.Text(),
				g.Checkpoint(Extra{}).Text())
		}
		lates += late
	}
	t.Logf("%d of %d acks were late", lates, 2000*ackers*each)
}

// TestFiguresWhileOthersWork looks at a gate that has at most two unfinished
// positions and one in its backlog at any time, and never more.
func TestFiguresWhileOthersWork(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	g, stop := New(0), make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if n := g.Unfinished(); n < 0 || n > 2 {
					t.Errorf("%d unfinished", n)
					return
				}
				if n := g.Backlog(); n < 0 || n > 1 {
					t.Errorf("%d in the backlog", n)
					return
				}
			}
		})
	}
	next := int64(0)
	for range 20_000 {
		switch r.IntN(20) {
		case 0:
			next += r.Int64N(500)
		case 1:
			next += r.Int64N(5 * Window)
		}
		tickets := register(t, g, next, next+1)
		tickets[1].Ack()
		tickets[0].Ack()
		next += 2
		if r.IntN(2) == 0 {
			g.Advance()
		}
	}
	close(stop)
	group.Wait()
}

func TestAckDoesNotAllocate(t *testing.T) {
	g := New(0)
	tickets := register(t, g, upTo(0, 2000)...)
	next := 0
	if n := testing.AllocsPerRun(1000, func() { tickets[next].Ack(); next++ }); n != 0 {
		t.Errorf("%v allocations per ack", n)
	}
	if n := testing.AllocsPerRun(1000, func() { g.Advance(); g.Unfinished(); g.Backlog() }); n != 0 {
		t.Errorf("%v allocations per advance", n)
	}
}
