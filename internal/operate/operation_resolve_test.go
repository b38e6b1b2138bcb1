package operate

import (
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/store"
)

// What a run had done of a chunk when its process was killed counts once, and the rest
// of the chunk is done by the next run.
func TestMarksGoOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 4)
		sel := givenIDs(4)
		m.markingDies(t, KindResolve, sel, func(ids ...string) (map[string]error, error) {
			return m.Resolve(t.Context(), "who", "", ids...)
		})
		m.wantOpen(t, 0)
		m.markingDies(t, KindReopen, sel, func(ids ...string) (map[string]error, error) {
			return m.Reopen(t.Context(), ids...)
		})
		m.wantOpen(t, 4)
	})
}

// markingDies carries out an operation whose first run has done half of what it was at.
func (m *morgue) markingDies(t *testing.T, kind string, sel Selection, mark func(...string) (map[string]error, error)) {
	t.Helper()
	p, err := MakePlan(t.Context(), m, m, sel, kind, "")
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.operations(t).Plan(t.Context(), kind, "who", sel, p)
	if err != nil {
		t.Fatal(err)
	}
	o.Intent, o.Next = sel.IDs, len(sel.IDs)
	if _, err := mark(sel.IDs[:len(sel.IDs)/2]...); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t, t.Context(), o); err != nil || o.Done != int64(len(sel.IDs)) || o.Refused != 0 {
		t.Fatalf("%s: %d done, %d refused: %v; want all done", kind, o.Done, o.Refused, err)
	}
}

func (m *morgue) wantOpen(t *testing.T, want int) {
	t.Helper()
	n := 0
	for _, err := range m.Dead(t.Context(), store.DeadFilter{Resolved: new(false)}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != want {
		t.Fatalf("%d are open; want %d", n, want)
	}
}
