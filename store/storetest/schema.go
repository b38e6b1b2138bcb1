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
			t.check(len(all) != 0 && all[0].Version >= 1 &&
				slices.IsSortedFunc(all, func(a, b store.Migration) int { return a.Version - b.Version }),
				"migrations %+v", all)
			for _, m := range all {
				t.check(m.Name != "" && !m.AppliedAt.IsZero(), "migration %+v of a store that is migrated", m)
			}
		}},
	{Text: "MigrateUp applies what is missing, and returns what it applied: nothing when nothing is missing. Messages stay.",
		Name: "MigrateUpAppliesWhatIsMissing", Schema: true, Test: func(t *T) {
			known := versions(t.migrations(), true)
			applied := t.migrateUp()
			t.check(len(applied) == 0, "applied %+v to a store that is migrated", applied)
			last := known[len(known)-1]
			t.put(t.msg("a"))
			t.migrateDown(last - 1)
			got := versions(t.migrations(), false)
			t.check(slices.Equal(got, []int{last}), "after the last step was taken back, %v are missing; want %d", got,
				last)
			applied = t.migrateUp()
			t.check(len(applied) == 1 && applied[0].Version == last && !applied[0].AppliedAt.IsZero(),
				"applied %+v; want step %d", applied, last)
			if last > known[0] { // the first step brings an empty store
				t.claims("a")
			}
		}},
	{Text: "MigrateDown takes back the newest steps; 0 removes the schema and every message in it.",
		Name: "MigrateDownTakesBack", Schema: true, Test: func(t *T) {
			t.put(t.msg("a"))
			known := versions(t.migrations(), true)
			got := t.migrateDown(0)
			t.check(slices.Equal(got, known), "took back %v; want %v", got, known)
			got = versions(t.migrations(), true)
			t.check(len(got) == 0, "still applied: %v", got)
			applied := t.migrateUp()
			t.check(len(applied) == len(known), "applied %+v; want %v", applied, known)
			if t.Reopen != nil {
				t.Store = t.Reopen(t)
			}
			t.nothing()
			t.claimed("b")
		}},
	{Text: "Several processes may migrate at once: every step is applied once.",
		Name: "SeveralMigrateAtOnce", Needs: needs(store.CanProcesses), Schema: true, Test: func(t *T) {
			known := versions(t.migrations(), true)
			t.handles()
			t.migrateDown(0)
			var mu sync.Mutex
			var applied []int
			t.together(4, func(_ int, t *T) {
				did := t.migrateUp()
				mu.Lock()
				defer mu.Unlock()
				applied = append(applied, each(did, func(m store.Migration) int { return m.Version })...)
			})
			slices.Sort(applied)
			t.check(slices.Equal(applied, known), "applied %v together; want %v", applied, known)
		}},
}

func (t *T) migrations() []store.Migration {
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

func (t *T) migrateUp() []store.Migration {
	applied, err := optional[store.Migrator](t).MigrateUp(t.ctx())
	t.must(err)
	return applied
}

func (t *T) migrateDown(to int) []int {
	undone, err := optional[store.Migrator](t).MigrateDown(t.ctx(), to)
	t.must(err)
	vs := each(undone, func(m store.Migration) int { return m.Version })
	slices.Sort(vs)
	return vs
}
