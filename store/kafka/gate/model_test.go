package gate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// state is what a gate knows, in the plainest form.
type state struct {
	base, tail int64
	finished   map[int64]bool // none before base
}

func (s *state) clone() state {
	return state{s.base, s.tail, maps.Clone(s.finished)}
}

func (s *state) fold() {
	for s.finished[s.base] {
		delete(s.finished, s.base)
		s.base++
	}
	s.tail = max(s.tail, s.base)
}

func (s *state) register(pos int64) Admission {
	if pos < s.tail {
		return Known
	}
	if pos-s.base >= Window {
		s.fold()
	}
	if pos-s.base >= Window {
		if s.base < s.tail {
			return Full
		}
		*s = state{base: pos, tail: pos, finished: map[int64]bool{}}
	}
	for ; s.tail < pos; s.tail++ {
		s.finished[s.tail] = true
	}
	s.tail = pos + 1
	if s.finished[pos] {
		return Known
	}
	return Admitted
}

// unfinished counts the registered positions that are not finished, backlog the
// finished ones behind the first of the others.
func (s *state) figures() (unfinished, backlog int) {
	unfinished, backlog = int(s.tail-s.base), len(s.finished)
	for pos := range s.finished {
		if pos < s.tail {
			unfinished--
		}
	}
	for pos := s.base; s.finished[pos]; pos++ {
		backlog--
	}
	return unfinished, backlog
}

// saved is a checkpoint with what was true when it was taken.
type saved struct {
	Checkpoint
	state
}

// machine does to a gate what it does to the model, and compares them.
type machine struct {
	fail  func(format string, args ...any)
	pick  func(n int) int // from 0 to n-1
	gate  *Gate
	model state
	open  []int64 // of this gate, not finished
	spent []int64 // finished, or open in an earlier gate
	saved []saved
}

func newMachine(fail func(string, ...any), pick func(int) int) *machine {
	base := int64(pick(5)-2)*math.MaxInt32 + int64(pick(100))
	return &machine{fail: fail, pick: pick, gate: New(base), model: state{base, base, map[int64]bool{}}}
}

func (m *machine) register(pos int64) Admission {
	want := m.model.register(pos)
	became := m.gate.Register(pos)
	if became != want {
		m.fail("register %d: %v, want %v", pos, became, want)
	}
	if became == Admitted {
		m.open = append(m.open, pos)
	}
	return became
}

// finish finishes an open position.
func (m *machine) finish(i int) {
	pos := m.open[i]
	m.open[i] = m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	m.spent = append(m.spent, pos)
	m.model.finished[pos] = true
	if !m.gate.Finish(pos) {
		m.fail("finish %d does not count", pos)
	}
}

func (m *machine) finishSome() {
	switch m.pick(3) {
	case 0: // in order
		for range m.pick(len(m.open) + 1) {
			m.finish(0)
		}
	case 1:
		for i := len(m.open) - 1; i >= 0; i -= 1 + m.pick(3) {
			m.finish(i)
		}
	case 2:
		for len(m.open) > 0 {
			m.finish(len(m.open) - 1)
		}
	}
}

// finishAgain finishes positions that are finished, or not of this gate.
func (m *machine) finishAgain() {
	for range min(len(m.spent), 10) {
		pos := m.spent[m.pick(len(m.spent))]
		if !slices.Contains(m.open, pos) && m.gate.Finish(pos) {
			m.fail("finish %d counts", pos)
		}
	}
}

func (m *machine) checkpoint() {
	extra := Extra{Source: uint32(m.pick(3)), Horizon: m.model.tail - 1, Open: m.pick(2) == 0}
	for range m.pick(3) {
		extra.Tries = append(extra.Tries, Try{m.model.base + int64(m.pick(20)), uint8(m.pick(4))})
	}
	c := m.gate.Checkpoint(extra)
	m.model.fold()
	want := slices.Sorted(maps.Keys(m.model.finished))
	if got := slices.Collect(c.Finished()); c.Base != m.model.base || !slices.Equal(got, want) || c.Len() != len(want) {
		m.fail("checkpoint %d + %v, want %d + %v", c.Base, got, m.model.base, want)
	}
	text := c.Text()
	read, err := Decode(c.Base, c.Source, text)
	if err != nil || read.Text() != text || m.gate.Checkpoint(extra).Text() != text {
		m.fail("text %q: %v", text, err)
	}
	m.saved = append(m.saved, saved{read, m.model.clone()})
}

// crash goes on with a new gate from a checkpoint, at its base or nearby.
func (m *machine) crash() {
	if len(m.saved) == 0 {
		return
	}
	from := m.saved[m.pick(len(m.saved))]
	model := from.state.clone()
	switch m.pick(4) {
	case 0:
		model.base += int64(m.pick(100))
	case 1:
		model.base -= int64(m.pick(100))
	}
	for pos := range model.finished {
		if model.base < from.base || pos < model.base {
			delete(model.finished, pos)
		}
	}
	m.gate = Resume(model.base, from.Checkpoint)
	model.tail = model.base
	model.fold()
	m.model = model
	m.spent, m.open = append(m.spent, m.open...), nil
}

// step does one thing.
func (m *machine) step() {
	switch m.pick(12) {
	case 0, 1:
		for range 1 + m.pick(100) {
			m.register(m.model.tail)
		}
	case 2:
		m.register(m.model.tail + int64(m.pick(200)))
	case 3:
		m.register(m.model.tail + int64(m.pick(3*Window)))
	case 4:
		m.register(m.model.tail - int64(m.pick(200)))
	case 5:
		for range m.pick(Window) {
			if m.register(m.model.tail) == Full {
				break
			}
		}
	case 6:
		if len(m.open) > 0 {
			m.finish(m.pick(len(m.open)))
		}
	case 7:
		m.finishSome()
	case 8:
		m.finishAgain()
	case 9:
		m.model.fold()
		if base := m.gate.Advance(); base != m.model.base {
			m.fail("advance to %d, want %d", base, m.model.base)
		}
	case 10:
		m.checkpoint()
	case 11:
		m.crash()
	}
	m.check()
}

func (m *machine) check() {
	g, s := m.gate, &m.model
	unfinished, backlog := s.figures()
	got := fmt.Sprintf("base %d, tail %d, unfinished %d, backlog %d", g.Base(), g.Tail(), g.Unfinished(),
		g.Backlog())
	want := fmt.Sprintf("base %d, tail %d, unfinished %d, backlog %d", s.base, s.tail, unfinished,
		backlog)
	if got != want {
		m.fail("%s; want %s", got, want)
	}
	for _, pos := range m.open {
		if pos < g.Base() {
			m.fail("the base is %d, and %d is unfinished", g.Base(), pos)
		}
	}
}

func TestGateDoesWhatTheModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t.Fatalf, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step()
		}
	})
}

// FuzzGate reads bytes as what is done to a gate: two of them for a choice.
func FuzzGate(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x63\x00\x09\x00\x07\x00\x01\x00\x02\x00\x0a\x00\x0b\x00\x02\x00\x00"))
	f.Fuzz(func(t *testing.T, script []byte) {
		m := newMachine(t.Fatalf, func(n int) int {
			v := 0
			for range 2 {
				if len(script) > 0 {
					v, script = v<<8|int(script[0]), script[1:]
				}
			}
			return v % n
		})
		for steps := 0; len(script) > 0 && steps < 200; steps++ {
			m.step()
		}
	})
}
