package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Ratio says how many times better Pawl is than the best peer: the median of
// the ratios of each round, and the lowest and highest of them.
type Ratio struct {
	Peer string
	meter.Spread
}

func (r Ratio) String() string { return r.Ratio() + " " + r.Peer }

// metric reads a figure of a line, if the line has it.
type metric struct {
	name   string
	higher bool // higher is better
	of     func(*Line) *float64
}

// compare finds the peer with the best median, and the ratios to it of the
// rounds that both have. ok is false when there is nothing to compare.
func (m metric) compare(lines []*Line) (r Ratio, ok bool) {
	medians := map[string]float64{}
	for arm, of := range byArm(lines) {
		all := slices.Collect(maps.Values(m.rounds(of)))
		if !plan.IsPawl(arm) && len(all) > 0 {
			medians[arm] = meter.Median(all)
		}
	}
	peer, ok := m.best(medians)
	if !ok {
		return r, false
	}
	return m.against(lines, plan.Pawl, peer)
}

// rounds returns the figures of an arm by round.
func (m metric) rounds(lines []*Line) map[int]float64 {
	rounds := map[int]float64{}
	for _, l := range lines {
		if v := m.of(l); v != nil {
			rounds[l.Round] = *v
		}
	}
	return rounds
}

// against is how many times better one arm of ours is than a peer, in the rounds
// that both have. ok is false when there are none.
func (m metric) against(lines []*Line, ours, peer string) (r Ratio, ok bool) {
	r.Peer = peer
	arms := byArm(lines)
	theirs := m.rounds(arms[peer])
	var ratios []float64
	for round, pawl := range m.rounds(arms[ours]) {
		peer, both := theirs[round]
		if m.higher {
			pawl, peer = peer, pawl
		}
		if both && pawl > 0 {
			ratios = append(ratios, peer/pawl)
		}
	}
	if len(ratios) == 0 {
		return r, false
	}
	r.Spread = meter.SpreadOf(ratios)
	return r, true
}

func (m metric) best(medians map[string]float64) (arm string, ok bool) {
	for name, v := range medians {
		better := cmp.Compare(v, medians[arm])
		if !m.higher {
			better = -better
		}
		if !ok || better > 0 || better == 0 && name < arm {
			arm, ok = name, true
		}
	}
	return arm, ok
}

func byArm(lines []*Line) map[string][]*Line {
	m := map[string][]*Line{}
	for _, l := range lines {
		m[l.Arm] = append(m[l.Arm], l)
	}
	return m
}
