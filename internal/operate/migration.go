package operate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/store"
)

// MigrationPlan is what brings the schema of a store up to date, as JSON.
type MigrationPlan struct {
	Steps []MigrationStep `json:"steps"`     // that are missing, in order
	Stop  []Program       `json:"must_stop"` // before the first of them
}

// MigrationStep is a step of a schema.
type MigrationStep struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

// Program is a registered program that lives.
type Program struct {
	Owner   string `json:"owner"`
	Version string `json:"version"`
}

// PlanMigration returns the steps that are missing, and, if there are some, the programs that work with the store now:
// all have to stop. It returns an error of code [store.ErrSchema] if a newer program has migrated the store.
func PlanMigration(ctx context.Context, s store.Store, m store.Migrator) (p MigrationPlan, err error) {
	p = MigrationPlan{Steps: []MigrationStep{}, Stop: []Program{}}
	steps, err := m.Migrations(ctx)
	if err != nil {
		return p, err
	}
	for _, step := range steps {
		switch {
		case step.Newer:
			return p, &store.Error{Op: "plan", Code: store.ErrSchema,
				Err:  fmt.Errorf("this program does not know version %d of the schema", step.Version),
				Hint: "use a newer version of this program"}
		case step.AppliedAt.IsZero():
			p.Steps = append(p.Steps, MigrationStep{step.Version, step.Name})
		}
	}
	entries, ok := store.As[store.Shared](s)
	if !ok || len(p.Steps) == 0 || len(p.Steps) == len(steps) { // nothing to do, or nothing there
		return p, nil
	}
	found, _, err := registered(ctx, entries)
	for _, owner := range slices.Sorted(maps.Keys(found)) {
		if w := found[owner]; *w.Alive {
			p.Stop = append(p.Stop, Program{owner, w.Version})
		}
	}
	return p, err
}

// Describe writes the plan for people.
func (p *MigrationPlan) Describe(w io.Writer) {
	if len(p.Steps) == 0 {
		_, _ = fmt.Fprintln(w, "the schema is up to date: replace programs one by one")
		return
	}
	for _, s := range p.Steps {
		_, _ = fmt.Fprintf(w, "missing    version %d, %s\n", s.Version, s.Name)
	}
	for _, s := range p.Stop {
		_, _ = fmt.Fprintf(w, "must stop  %s, version %s\n", s.Owner, s.Version)
	}
	if len(p.Stop) == 0 {
		_, _ = fmt.Fprintln(w, "next       run `pawl migrate up`")
		return
	}
	_, _ = fmt.Fprintln(w, "next       stop them, run `pawl migrate up`, and start the new version")
}
