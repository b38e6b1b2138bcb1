package policy

import (
	"cmp"
	"math"
	"slices"
)

// Cell is a place in the effective matrix, and the rule that decides there.
type Cell struct {
	// Match is the key of the failures: with a phase wherever there is a type.
	Match Match
	Rule  Rule
}

// Cells returns the effective matrix, cell by cell: each once, with the rule that
// [Matrix.Explain] finds there. Rules that never decide, because others are found first
// or because their phase is not decided about, have no cell. The order is that of the
// rules without overrides; what is not in it follows what is most like it: a kind the
// others of its type, a type the other types.
func (m *Matrix) Cells() []Cell {
	var cells []Cell
	for _, r := range m.order {
		for _, phase := range r.Match.phases() {
			match := r.Match
			match.Phase = phase
			if m.lookup(match.event(), match.Kind) == r {
				cells = append(cells, Cell{match, *r})
			}
		}
	}
	slices.SortStableFunc(cells, func(a, b Cell) int { return m.places.compare(a.Match, b.Match) })
	return cells
}

// completed is decided of a health check, whose failure is a verdict.
const completed = "Completed"

// phases are those of m that are decided, in order.
func (m Match) phases() []string {
	if m.Type == "" {
		return []string{""}
	}
	all := []string{Failed, Again}
	if m.Domain == System && m.Type == "SystemHealth" {
		all = append(all, completed)
	}
	if m.Phase == "" {
		return all
	}
	return slices.DeleteFunc(all, func(phase string) bool { return phase != m.Phase })
}

// places says where types, kinds of a type and kinds first come up in rules.
type places map[Match]int

func placesOf(rules []*Rule) places {
	p := places{}
	for i, r := range rules {
		m := r.Match
		m.Phase = ""
		for _, key := range []Match{m, {Domain: m.Domain, Type: m.Type}} {
			if _, ok := p[key]; !ok {
				p[key] = i
			}
		}
	}
	return p
}

func (p places) of(m Match) int {
	if i, ok := p[m]; ok {
		return i
	}
	return math.MaxInt
}

// compare puts types before kinds, these before the default, and in a type the
// row for any kind last.
func (p places) compare(a, b Match) int {
	by := func(part func(Match) int) int { return cmp.Compare(part(a), part(b)) }
	return cmp.Or(
		by(func(m Match) int { return -min(m.width(), 2) }),
		by(func(m Match) int { return p.of(Match{Domain: m.Domain, Type: m.Type}) }),
		cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Type, b.Type),
		by(func(m Match) int {
			if m.Kind == AnyKind {
				return 1
			}
			return 0
		}),
		by(func(m Match) int { return p.of(Match{Domain: m.Domain, Type: m.Type, Kind: m.Kind}) }),
		by(func(m Match) int { return p.of(Match{Kind: m.Kind}) }),
		cmp.Compare(a.Kind, b.Kind),
		by(func(m Match) int { return slices.Index([]string{Failed, Again, completed}, m.Phase) }),
	)
}
