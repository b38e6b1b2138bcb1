package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) migrate() *cobra.Command {
	return noun("migrate", "The schema of a store: up, down, status",
		`An embedded store brings its schema up to date when it is opened. On a
server that needs these commands, or --auto-migrate.`,
		s.migrateUp(), s.migrateDown(), s.migrateStatus())
}

// stepInfo is a step of a schema, as JSON.
type stepInfo struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"`
}

func formStep(m store.Migration) stepInfo {
	info := stepInfo{Version: m.Version, Name: m.Name}
	if !m.AppliedAt.IsZero() {
		info.AppliedAt = new(m.AppliedAt.UTC())
	}
	return info
}

// migrator opens the store whatever its schema is; look leaves that as it is.
func (s *session) migrator(ctx context.Context, look bool) (store.Migrator, error) {
	opened, err := s.openAs(ctx, open.Config{NoCheck: true, Look: look, Existing: s.dryRun})
	if err != nil {
		return nil, err
	}
	return partOf[store.Migrator](opened, "migrate")
}

func (s *session) migrateUp() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Bring the schema up to date", Args: count(0, 0, "nothing"),
		Long: `Applies the missing steps, each in a transaction and under a lock: several processes
may run it at once. --dry-run lists the steps.`,
		Example: `  pawl migrate up
  pawl migrate up --dry-run`,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := s.migrator(c.Context(), s.dryRun)
			if err != nil {
				return err
			}
			if s.dryRun {
				return s.listSteps(c.Context(), m, true, "the schema is up to date")
			}
			done, err := m.MigrateUp(c.Context())
			if err != nil {
				return cannot(err, "bring the schema up to date")
			}
			return s.printSteps(done, "the schema was up to date")
		},
	}
}

func (s *session) migrateDown() *cobra.Command {
	to := -1
	c := &cobra.Command{
		Use: "down", Short: "Roll back steps of the schema", Args: count(0, 0, "flags only"),
		Long: `Rolls back the newest steps, down to the version that --to names; 0 removes the schema
and with it every message. It asks first, unless --yes is given.`,
		Example: `  pawl migrate down --to 0 --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if to < 0 {
				return usage("such as --to 0, which removes everything; `pawl migrate status` lists the versions",
					"--to is needed")
			}
			m, err := s.migrator(c.Context(), s.dryRun)
			if err != nil {
				return err
			}
			if s.dryRun {
				s.note("would roll back every step above version %d", to)
				return nil
			}
			what := fmt.Sprintf("roll the schema of %s back to version %d", redact.URL(s.url()), to)
			if to == 0 {
				what = fmt.Sprintf("remove every message and every topic from %s", redact.URL(s.url()))
			}
			if err := s.confirm("%s", what); err != nil {
				return err
			}
			undone, err := m.MigrateDown(c.Context(), to)
			if err != nil {
				return cannot(err, "roll the schema back")
			}
			return s.printSteps(undone, "there was nothing to roll back")
		},
	}
	c.Flags().IntVar(&to, "to", to, "the `VERSION` to go back to")
	return c
}

func (s *session) migrateStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the steps of the schema", Args: count(0, 0, "nothing"),
		Long: "Lists every step with the time when it was applied. It applies no missing steps;\nit only creates a file that does not exist.",
		Example: `  pawl migrate status
  pawl migrate status -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := s.migrator(c.Context(), true)
			if err != nil {
				return err
			}
			return s.listSteps(c.Context(), m, false, "the store has no schema")
		},
	}
}

// listSteps prints all steps, or those that are missing.
func (s *session) listSteps(ctx context.Context, m store.Migrator, missing bool, empty string) error {
	steps, err := m.Migrations(ctx)
	if err != nil {
		return cannot(err, "look at the schema")
	}
	var shown []store.Migration
	for _, step := range steps {
		if !missing || step.AppliedAt.IsZero() {
			shown = append(shown, step)
		}
	}
	return s.printSteps(shown, empty)
}

func (s *session) printSteps(steps []store.Migration, empty string) error {
	l := s.list(">VERSION", "NAME", "APPLIED AT")
	for _, step := range steps {
		info := formStep(step)
		l.add(info, number(info.Version), info.Name,
			cmp.Or(whenever(info.AppliedAt), "not applied"))
	}
	return l.end("%s", empty)
}
