package gate

import (
	"math"
	"slices"
	"testing"
)

// register registers positions that the gate must admit.
func register(tb testing.TB, g *Gate, positions ...int64) {
	tb.Helper()
	for _, pos := range positions {
		if became := g.Register(pos); became != Admitted {
			tb.Fatalf("register %d: %v", pos, became)
		}
	}
}

// upTo are the positions from one to before the other.
func upTo(from, to int64) []int64 {
	var positions []int64
	for pos := from; pos < to; pos++ {
		positions = append(positions, pos)
	}
	return positions
}

func TestSecondFinishDoesNotFinishWhatHasTheSlotNow(t *testing.T) {
	g := New(0)
	register(t, g, 0)
	if !g.Finish(0) || g.Finish(0) || g.Advance() != 1 {
		t.Fatal("the first counts, the second does not")
	}
	register(t, g, upTo(1, Window+1)...) // the last one has the bit of position 0
	if g.Finish(0) {
		t.Error("it counts after the base has moved over it")
	}
	for pos := int64(1); pos < Window; pos++ {
		g.Finish(pos)
	}
	if base := g.Advance(); base != Window {
		t.Errorf("base is %d, want %d: position %[2]d is unfinished", base, Window)
	}
}

func TestBaseFollowsThePrefix(t *testing.T) {
	g := New(8)
	register(t, g, upTo(8, 13)...)
	for _, step := range []struct{ ack, base int64 }{{10, 8}, {8, 9}, {12, 9}, {9, 11}, {11, 13}} {
		if !g.Finish(step.ack) {
			t.Fatalf("ack of %d did not count", step.ack)
		}
		if base := g.Advance(); base != step.base || g.Base() != base {
			t.Errorf("after %d the base is %d, want %d", step.ack, base, step.base)
		}
	}
}

func TestWindowIsFullAndOpensAgain(t *testing.T) {
	g := New(100)
	register(t, g, upTo(100, 100+Window)...)
	for range 2 {
		if became := g.Register(100 + Window); became != Full {
			t.Fatalf("beyond the window: %v", became)
		}
	}
	g.Finish(101)
	if became := g.Register(100 + Window); became != Full {
		t.Fatalf("with an unfinished head: %v", became)
	}
	g.Finish(100)
	if became := g.Register(100 + Window); became != Admitted || g.Base() != 102 {
		t.Fatalf("after the head: %v, base %d", became, g.Base())
	}
}

func TestLeftOutPositionsAreFinished(t *testing.T) {
	g := New(0)
	register(t, g, 0, 5, 70)
	if got := g.Backlog(); got != 4+64 {
		t.Errorf("backlog %d", got)
	}
	g.Finish(0)
	if base := g.Advance(); base != 5 {
		t.Errorf("base %d, want 5", base)
	}
	for _, pos := range []int64{3, 5, 6, 70} {
		if became := g.Register(pos); became != Known {
			t.Errorf("register %d again: %v, want %v", pos, became, Known)
		}
	}
}

func TestIdleGateJumps(t *testing.T) {
	g := New(0)
	register(t, g, 0, 1)
	if became := g.Register(10 * Window); became != Full {
		t.Fatalf("over an unfinished head: %v", became)
	}
	g.Finish(0)
	g.Finish(1)
	register(t, g, 10*Window)
	if g.Base() != 10*Window || g.Unfinished() != 1 || g.Backlog() != 0 {
		t.Errorf("base %d, unfinished %d, backlog %d", g.Base(), g.Unfinished(), g.Backlog())
	}
	g.Finish(10 * Window)
	if base := g.Advance(); base != 10*Window+1 {
		t.Errorf("base %d", base)
	}
	if became := g.Register(math.MaxInt64); became != Full {
		t.Errorf("the number that is no position: %v", became)
	}
}

func TestJumpForgetsMarks(t *testing.T) {
	g := New(0)
	register(t, g, 0, 1, 2, 3)
	g.Finish(2)
	g = Resume(0, g.Checkpoint(Extra{})) // 2 is finished
	register(t, g, 3*Window+1, 3*Window+2)
	if g.Backlog() != 0 {
		t.Errorf("backlog %d after the jump", g.Backlog())
	}
	g.Finish(3*Window + 1)
	if base := g.Advance(); base != 3*Window+2 {
		t.Errorf("base %d: a mark finished another position", base)
	}
}

func TestFinishOfWhatWasNotRegistered(t *testing.T) {
	g := New(10)
	register(t, g, 10, 15)
	for _, pos := range []int64{9, 12, 16, 10 + Window} {
		if g.Finish(pos) {
			t.Errorf("%d was finished", pos)
		}
	}
	if g.Unfinished() != 2 {
		t.Errorf("%d are unfinished, want 2", g.Unfinished())
	}
}

func TestResume(t *testing.T) {
	g := New(10)
	register(t, g, upTo(10, 20)...)
	for _, pos := range []int64{12, 13, 15} {
		g.Finish(pos)
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
					want = Known
				}
				if became := g.Register(pos); became != want {
					t.Errorf("register %d: %v, want %v", pos, became, want)
				}
			}
		})
	}
}

func TestFigures(t *testing.T) {
	g := New(0)
	register(t, g, upTo(0, 100)...)
	g.Finish(0)
	g.Finish(50)
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
	register(t, g, 10, 11, 12, 13, 14, 15)
	g.Finish(12)
	g.Finish(14)
	again := Resume(10, g.Checkpoint(Extra{}))
	for to, want := range map[int64]uint64{9: 0, 10: 0, 12: 2, 13: 2, 16: 4, 1 << 40: 1<<40 - 12} {
		if got := again.LeftOut(again.Tail(), to); got != want {
			t.Errorf("before %d: %d, want %d", to, got, want)
		}
	}
}
