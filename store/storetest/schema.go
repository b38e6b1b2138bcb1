package storetest

import (
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/store"
)

var schemaSentences = []Sentence{
	{Text: "Migrations returns every step this program knows, applied or not, in order.",
		Name: "MigrationsAreListed", Schema: true, Test: func(t *T) {
			all := t.migrations()
			if len(all) == 0 || all[0].Version < 1 || !slices.IsSortedFunc(all,
				func(a, b store.Migration) int { return a.Version - b.Version }) {
				t.Fatalf("migrations %+v", all)
			}
			for _, m := range all {
				if m.Name == "" || m.AppliedAt.IsZero() {
					t.Fatalf("migration %+v of a store that is migrated", m)
				}
			}
		}},
	{Text: "MigrateUp applies what is missing, and returns what it applied: nothing when nothing is missing. Messages stay.",
		Name: "MigrateUpAppliesWhatIsMissing", Schema: true, Test: func(t *T) {
			known := versions(t.migrations(), true)
			applied, err := optional[store.Migrator](t).MigrateUp(t.ctx())
			if t.must(err); len(applied) > 0 {
				t.Fatalf("applied %+v to a store that is migrated", applied)
			}
			last := known[len(known)-1]
			t.put(t.msg("a"))
			t.migrateDown(last - 1)
			if got := versions(t.migrations(), false); !slices.Equal(got, []int{last}) {
				t.Fatalf("after the last step was taken back, %v are missing; want %d", got, last)
			}
			applied, err = optional[store.Migrator](t).MigrateUp(t.ctx())
			if t.must(err); len(applied) != 1 || applied[0].Version != last || applied[0].AppliedAt.IsZero() {
				t.Fatalf("applied %+v; want step %d", applied, last)
			}
			if last > known[0] { // the first step brings an empty store
				t.claims("a")
			}
		}},
	{Text: "MigrateDown takes back the newest steps; 0 removes the schema and every message in it.",
		Name: "MigrateDownTakesBack", Schema: true, Test: func(t *T) {
			t.put(t.msg("a"))
			known := versions(t.migrations(), true)
			if got := t.migrateDown(0); !slices.Equal(got, known) {
				t.Fatalf("took back %v; want %v", got, known)
			}
			if got := versions(t.migrations(), true); len(got) > 0 {
				t.Fatalf("still applied: %v", got)
			}
			applied, err := optional[store.Migrator](t).MigrateUp(t.ctx())
			if t.must(err); len(applied) != len(known) {
				t.Fatalf("applied %+v; want %v", applied, known)
			}
			if t.Reopen != nil {
				t.Store = t.Reopen(t)
			}
			t.nothing()
			t.put(t.msg("b"))
			t.claims("b")
		}},
	{Text: "Several processes may migrate at once: every step is applied once.",
		Name: "SeveralMigrateAtOnce", Needs: needs(store.CanProcesses), Schema: true, Test: func(t *T) {
			known := versions(t.migrations(), true)
			handles := t.handles()
			t.migrateDown(0)
			var mu sync.Mutex
			var applied []int
			t.togetherOn(handles, 4, func(_ int, s store.Store) error {
				m, _ := store.As[store.Migrator](s)
				did, err := m.MigrateUp(t.ctx())
				mu.Lock()
				defer mu.Unlock()
				for _, step := range did {
					applied = append(applied, step.Version)
				}
				return err
			})
			slices.Sort(applied)
			if !slices.Equal(applied, known) {
				t.Fatalf("applied %v together; want %v", applied, known)
			}
		}},
}

func (t *T) migrations() []store.Migration {
	t.Helper()
	all, err := optional[store.Migrator](t).Migrations(t.ctx())
	t.must(err)
	return all
}

// versions are the numbers of steps, applied or not as asked.
func versions(steps []store.Migration, applied bool) []int {
	var vs []int
	for _, m := range steps {
		if m.AppliedAt.IsZero() != applied {
			vs = append(vs, m.Version)
		}
	}
	return vs
}

func (t *T) migrateDown(to int) []int {
	t.Helper()
	undone, err := optional[store.Migrator](t).MigrateDown(t.ctx(), to)
	t.must(err)
	vs := each(undone, func(m store.Migration) int { return m.Version })
	slices.Sort(vs)
	return vs
}
