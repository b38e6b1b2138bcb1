package gate

import (
	"math"
	"slices"
	"testing"
)

// register registers positions that the gate must admit, and returns their
// tickets.
func register(tb testing.TB, g *Gate, positions ...int64) []*Ticket {
	tb.Helper()
	tickets := make([]*Ticket, len(positions))
	for i, pos := range positions {
		tickets[i] = new(Ticket)
		if became := g.Register(pos, tickets[i]); became != Admitted {
			tb.Fatalf("register %d: %v", pos, became)
		}
	}
	return tickets
}

// upTo are the positions from one to before the other.
func upTo(from, to int64) []int64 {
	var positions []int64
	for pos := from; pos < to; pos++ {
		positions = append(positions, pos)
	}
	return positions
}

func TestSecondAckDoesNotFinishWhatHasTheSlotNow(t *testing.T) {
	g := New(0)
	first := register(t, g, 0)[0]
	if !first.Ack() || g.Advance() != 1 {
		t.Fatal("the first ack did not count")
	}
	later := register(t, g, upTo(1, Window+1)...) // the last one has the bit of position 0
	if first.Ack() {
		t.Error("a second ack counts")
	}
	for _, ticket := range later[:Window-1] {
		ticket.Ack()
	}
	if base := g.Advance(); base != Window {
		t.Errorf("base is %d after a second ack, want %d: position %[2]d is unfinished", base, Window)
	}
}

func TestBaseFollowsThePrefix(t *testing.T) {
	g := New(8)
	tickets := register(t, g, upTo(8, 13)...)
	for _, step := range []struct{ ack, base int64 }{{10, 8}, {8, 9}, {12, 9}, {9, 11}, {11, 13}} {
		if !tickets[step.ack-8].Ack() {
			t.Fatalf("ack of %d did not count", step.ack)
		}
		if base := g.Advance(); base != step.base || g.Base() != base {
			t.Errorf("after %d the base is %d, want %d", step.ack, base, step.base)
		}
	}
}

func TestWindowIsFullAndOpensAgain(t *testing.T) {
	g := New(100)
	tickets := register(t, g, upTo(100, 100+Window)...)
	var next Ticket
	for range 2 {
		if became := g.Register(100+Window, &next); became != Full {
			t.Fatalf("beyond the window: %v", became)
		}
	}
	tickets[1].Ack()
	if became := g.Register(100+Window, &next); became != Full {
		t.Fatalf("with an unfinished head: %v", became)
	}
	tickets[0].Ack()
	if became := g.Register(100+Window, &next); became != Admitted || g.Base() != 102 {
		t.Fatalf("after the head: %v, base %d", became, g.Base())
	}
	if next.Pos() != 100+Window || next.Done() {
		t.Errorf("ticket of %d, done %v", next.Pos(), next.Done())
	}
}

func TestLeftOutPositionsAreFinished(t *testing.T) {
	g := New(0)
	tickets := register(t, g, 0, 5, 70)
	if got := g.Backlog(); got != 4+64 {
		t.Errorf("backlog %d", got)
	}
	tickets[0].Ack()
	if base := g.Advance(); base != 5 {
		t.Errorf("base %d, want 5", base)
	}
	for pos, want := range map[int64]Admission{3: Behind, 5: Repeated, 6: Finished, 70: Repeated} {
		if became := g.Register(pos, new(Ticket)); became != want {
			t.Errorf("register %d again: %v, want %v", pos, became, want)
		}
	}
}

func TestIdleGateJumps(t *testing.T) {
	g := New(0)
	head := register(t, g, 0, 1)
	if became := g.Register(10*Window, new(Ticket)); became != Full {
		t.Fatalf("over an unfinished head: %v", became)
	}
	head[0].Ack()
	head[1].Ack()
	far := register(t, g, 10*Window)[0]
	if g.Base() != 10*Window || g.Unfinished() != 1 || g.Backlog() != 0 {
		t.Errorf("base %d, unfinished %d, backlog %d", g.Base(), g.Unfinished(), g.Backlog())
	}
	far.Ack()
	if base := g.Advance(); base != 10*Window+1 {
		t.Errorf("base %d", base)
	}
	if became := g.Register(math.MaxInt64, new(Ticket)); became != Full {
		t.Errorf("the number that is no position: %v", became)
	}
}

func TestJumpForgetsMarks(t *testing.T) {
	g := New(0)
	register(t, g, 0, 1, 2, 3)[2].Ack()
	g = Resume(0, g.Checkpoint(Extra{})) // 2 is finished
	tickets := register(t, g, 3*Window+1, 3*Window+2)
	if g.Backlog() != 0 {
		t.Errorf("backlog %d after the jump", g.Backlog())
	}
	tickets[0].Ack()
	if base := g.Advance(); base != 3*Window+2 {
		t.Errorf("base %d: a mark finished another position", base)
	}
}

func TestCloseEndsAcks(t *testing.T) {
	g := New(0)
	tickets := register(t, g, 0, 1, 2)
	tickets[2].Ack()
	g.Close()
	g.Close()
	for _, i := range []int{0, 0, 2} {
		if tickets[i].Ack() {
			t.Errorf("an ack of %d counts after Close", i)
		}
	}
	if g.Late() != 1 {
		t.Errorf("late %d, want 1: a repeated ack is not a late one", g.Late())
	}
	c := g.Checkpoint(Extra{})
	if c.Base != 0 || !slices.Equal(slices.Collect(c.Finished()), []int64{2}) {
		t.Errorf("checkpoint after Close: %+v", c)
	}
	if became := g.Register(3, new(Ticket)); became != Closed {
		t.Errorf("register after Close: %v", became)
	}
}

func TestTicketInUseIsRefused(t *testing.T) {
	g := New(0)
	ticket := register(t, g, 0)[0]
	ticket.Ack()
	defer func() {
		if recover() == nil {
			t.Error("an old ticket was admitted: a late ack of its first position would finish its second")
		}
	}()
	g.Register(1, ticket)
}

func TestUnadmittedTicketAcksNothing(t *testing.T) {
	var ticket Ticket
	if ticket.Ack() || ticket.Done() {
		t.Error("a ticket without a gate was acked")
	}
}

func TestResume(t *testing.T) {
	g := New(10)
	tickets := register(t, g, upTo(10, 20)...)
	for _, pos := range []int64{12, 13, 15} {
		tickets[pos-10].Ack()
	}
	c := g.Checkpoint(Extra{Source: 7})
	for _, row := range []struct {
		name       string
		base, want int64
		finished   []int64
	}{
		{"there", 10, 10, []int64{12, 13, 15}},
		{"lower", 9, 9, nil},
		{"higher", 11, 11, []int64{12, 13, 15}},
		{"on a finished one", 12, 14, []int64{15}},
		{"on the last mark", 15, 16, nil},
		{"beyond", 500, 500, nil},
		{"far beyond", math.MaxInt64, math.MaxInt64, nil},
		{"far before", math.MinInt64, math.MinInt64, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := Resume(row.base, c)
			if g.Base() != row.want {
				t.Fatalf("base %d, want %d", g.Base(), row.want)
			}
			if got := slices.Collect(g.Checkpoint(Extra{}).Finished()); !slices.Equal(got, row.finished) {
				t.Errorf("finished %v, want %v", got, row.finished)
			}
			for pos := row.want; pos < row.want+10 && pos > 0 && pos < 600; pos++ {
				want := Admitted
				if slices.Contains(row.finished, pos) {
					want = Finished
				}
				if became := g.Register(pos, new(Ticket)); became != want {
					t.Errorf("register %d: %v, want %v", pos, became, want)
				}
			}
		})
	}
}

func TestFigures(t *testing.T) {
	g := New(0)
	tickets := register(t, g, upTo(0, 100)...)
	tickets[0].Ack()
	tickets[50].Ack()
	if g.Unfinished() != 98 || g.Backlog() != 1 || g.Base() != 0 || g.Tail() != 100 {
		t.Errorf("unfinished %d, backlog %d, base %d, tail %d", g.Unfinished(), g.Backlog(), g.Base(), g.Tail())
	}
	c := g.Checkpoint(Extra{})
	if c.Base != 1 || c.Len() != 1 || !c.Has(0) || c.Has(1) || !c.Has(50) {
		t.Errorf("checkpoint %+v", c)
	}
	after := Resume(c.Base, c)
	if after.Unfinished() != 0 || after.Backlog() != 1 {
		t.Errorf("resumed: unfinished %d, backlog %d", after.Unfinished(), after.Backlog())
	}
}

// What is left out is lost, but for what a checkpoint says is finished.
func TestLeftOut(t *testing.T) {
	g := New(10)
	tickets := register(t, g, 10, 11, 12, 13, 14, 15)
	tickets[2].Ack()
	tickets[4].Ack()
	again := Resume(10, g.Checkpoint(Extra{}))
	for to, want := range map[int64]uint64{9: 0, 10: 0, 12: 2, 13: 2, 16: 4, 1 << 40: 1<<40 - 12} {
		if got := again.LeftOut(again.Tail(), to); got != want {
			t.Errorf("before %d: %d, want %d", to, got, want)
		}
	}
}
