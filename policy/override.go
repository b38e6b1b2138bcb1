package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// Override changes what the matrix says about the failures that it matches; a
// field that is nil keeps what its baseline says, and so do conditions and the
// way to degrade. It may only make things stricter:
//
//   - Repeat may be switched off, never on;
//   - Backoff may only grow: no delay gets shorter, after any attempt, at any
//     point of the jitter;
//   - MaxAttempts may only fall;
//   - DeadLetter may only move from never over exhausted to always, which switches
//     retries off and disables Pass;
//   - Alert may only rise.
//
// The baseline is the rule that would be found for Match without the override: the row
// with that very match, or the first one that the look-up falls back to. Wider
// overrides are put in place before narrower ones, so a narrow one is never weaker than
// a wide one that it falls back to. Rows that are more specific than Match stay as they
// are, because they are found first: an override for a kind says nothing about the rows
// that a type has for this kind.
//
// An override for [AnyKind] where there is no such row comes before rows of
// several kinds in the look-up. It is an override of each of them for this
// phase, with that row as the baseline, and of the default for all other kinds.
type Override struct {
	Match       Match
	Repeat      *Repeat
	Backoff     *BackoffChange
	MaxAttempts *int
	DeadLetter  *DeadLetter
	Alert       *Alert
	// Origin says where the override comes from, for listings: "pawl.yaml:42".
	// Empty is "override".
	Origin string
}

// BackoffChange changes the parts of a [Backoff] that are not nil.
type BackoffChange struct {
	Shape     *Shape
	Base, Max *time.Duration
}

// OverrideError is one thing that is wrong with an override.
type OverrideError struct {
	Index int    // which one, counted from 0
	Field string // match, retry, backoff.shape, backoff.base, backoff.max, max_attempts, dead_letter or alert
	Why   string
}

func (e *OverrideError) Error() string {
	return fmt.Sprintf("overrides[%d].%s: %s", e.Index, e.Field, e.Why)
}

// NewMatrixOf is [NewMatrix] with overrides, whose order does not matter. Every problem is reported at once: the error
// joins an [OverrideError] for each, in the order of the overrides.
func NewMatrixOf(random func() float64, rules []Rule, overrides ...Override) (*Matrix, error) {
	m, err := NewMatrix(random, rules...)
	if err != nil {
		return nil, err
	}
	return m.With(overrides...)
}

// With returns the matrix with overrides over its rows, as [NewMatrixOf] does. Overrides that m has already are rows of
// it: they may be made stricter, and never weaker.
func (m *Matrix) With(overrides ...Override) (*Matrix, error) {
	m = &Matrix{rules: maps.Clone(m.rules), order: slices.Clone(m.order), places: m.places, random: m.random}
	l := overlay{m: m}
	first := map[Match]int{}
	widestFirst := make([]int, 0, len(overrides))
	for i := range overrides {
		o := &overrides[i]
		for _, why := range o.Match.problems() {
			l.bad(i, "match", why)
		}
		if at, ok := first[o.Match]; ok {
			l.bad(i, "match", fmt.Sprintf("matches the same as %s; join the two", overrides[at].name(at)))
			continue
		}
		first[o.Match] = i
		if len(o.Match.problems()) == 0 {
			widestFirst = append(widestFirst, i)
		}
	}
	slices.SortStableFunc(widestFirst, func(a, b int) int {
		return cmp.Compare(overrides[a].Match.width(), overrides[b].Match.width())
	})
	for _, i := range widestFirst {
		l.put(i, &overrides[i])
	}
	if len(l.errs) > 0 {
		return nil, l.err()
	}
	m.order = append(l.added, m.order...)
	return m, nil
}

// name is how errors about others speak of the override.
func (o *Override) name(index int) string {
	return cmp.Or(o.Origin, fmt.Sprintf("overrides[%d]", index))
}

// width orders matches by what is looked up last.
func (m Match) width() int {
	switch {
	case m == Match{}:
		return 0
	case m.Type == "":
		return 1
	case m.Phase == "":
		return 2
	case m.Kind == AnyKind:
		return 3
	default:
		return 4
	}
}

// overlay puts overrides into a matrix.
type overlay struct {
	m     *Matrix
	added []*Rule // rows that the matrix did not have, the most telling first
	errs  []*OverrideError
}

func (l *overlay) bad(index int, field, why string) {
	// Of an override that stands for several rows, the first problem of a field
	// says enough.
	if !slices.ContainsFunc(l.errs, func(e *OverrideError) bool {
		return e.Index == index && e.Field == field && field != "match"
	}) {
		l.errs = append(l.errs, &OverrideError{index, field, why})
	}
}

func (l *overlay) err() error {
	slices.SortStableFunc(l.errs, func(a, b *OverrideError) int { return cmp.Compare(a.Index, b.Index) })
	var all pawl.Faults
	for _, e := range l.errs {
		all.Add(e)
	}
	return all.Err()
}

// put lays an override over its baseline, or over each of them.
func (l *overlay) put(index int, o *Override) {
	bad := func(field, why string) { l.bad(index, field, why) }
	baseline := l.m.lookup(o.Match.event(), o.Match.Kind)
	rows := []Rule{o.over(baseline, o.Match, true, bad)}
	if o.Match.Kind == AnyKind && l.m.rules[o.Match] == nil {
		for _, match := range l.hidden(o.Match) {
			rows = append(rows, o.over(l.m.lookup(match.event(), match.Kind), match, false, bad))
		}
	}
	for i := range rows {
		l.set(&rows[i])
	}
}

// hidden are the matches, of the phase that whole is about, whose kinds have a
// rule that a row for whole would be found before.
func (l *overlay) hidden(whole Match) []Match {
	var matches []Match
	for _, r := range slices.Concat(l.added, l.m.order) {
		match := whole
		match.Kind = r.Match.Kind
		if match.Kind == "" || match.Kind == AnyKind || l.m.rules[match] != nil || slices.Contains(matches, match) {
			continue
		}
		if l.m.lookup(match.event(), match.Kind).Match != (Match{}) {
			matches = append(matches, match)
		}
	}
	return matches
}

func (m Match) event() Event { return Event{m.Domain, m.Type, m.Phase} }

// set puts a row in the place of the one with its match, or in front.
func (l *overlay) set(r *Rule) {
	old := l.m.rules[r.Match]
	l.m.rules[r.Match] = r
	for _, order := range [][]*Rule{l.added, l.m.order} {
		if i := slices.Index(order, old); old != nil && i >= 0 {
			order[i] = r
			return
		}
	}
	l.added = append([]*Rule{r}, l.added...)
}
