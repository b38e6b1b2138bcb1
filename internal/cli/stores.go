package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// backendInfo is a kind of store, as JSON.
type backendInfo struct {
	Name         string           `json:"name"`
	URL          string           `json:"url"`
	Status       string           `json:"status"` // available or planned
	Embedded     bool             `json:"embedded"`
	Durability   string           `json:"durability"`
	Capabilities []capabilityInfo `json:"capabilities"`
}

// capabilityInfo says how a store keeps a capability, as JSON.
type capabilityInfo struct {
	Name string `json:"name"`
	Kept bool   `json:"kept"`
	Note string `json:"note"`
}

func (s *session) stores() *cobra.Command {
	return &cobra.Command{
		Use: "stores", Short: "Show what each kind of store can do", Args: count(0, 0, "nothing"),
		Long: `Shows every kind of store with its URL, the meaning of "stored" there, and which of
Pawl's promises it keeps: yes, differently (with a note), or not at all. It opens no
store.`,
		Example: `  pawl stores
  pawl stores -o json`,
		RunE: func(*cobra.Command, []string) error {
			if s.output == formatTable {
				return s.printStores(open.Backends())
			}
			l := s.list()
			for _, b := range open.Backends() {
				l.add(formBackend(&b))
			}
			return l.end("")
		},
	}
}

func formBackend(b *open.Backend) backendInfo {
	info := backendInfo{Name: b.Name, URL: b.URL, Status: "available", Embedded: b.Embedded, Durability: b.Durability,
		Capabilities: []capabilityInfo{}}
	if b.Planned {
		info.Status = "planned"
		return info
	}
	for _, c := range store.AllCapabilities {
		info.Capabilities = append(info.Capabilities, capabilityInfo{string(c), b.Capabilities[c].Kept,
			b.Capabilities[c].Note})
	}
	return info
}

// printStores prints a row per capability and a column per store, and below it
// what is to be said about each.
func (s *session) printStores(backends []open.Backend) error {
	header := []string{""}
	var there []open.Backend
	for _, b := range backends {
		if !b.Planned {
			header = append(header, strings.ToUpper(b.Name))
			there = append(there, b)
		}
	}
	t := terminal.NewTable(s.out, s.colours(), s.columns(), header...)
	var notes []string
	for _, c := range store.AllCapabilities {
		row := []string{string(c)}
		for _, b := range there {
			support := b.Capabilities[c]
			mark := map[bool]string{true: "yes", false: "no"}[support.Kept]
			if support.Note != "" {
				notes = append(notes, fmt.Sprintf("%s, %s: %s", b.Name, c, support.Note))
				mark += fmt.Sprintf(" (%d)", len(notes))
			}
			row = append(row, mark)
		}
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	describeStores(s.out, backends, notes)
	return s.out.Flush()
}

func describeStores(w io.Writer, backends []open.Backend, notes []string) {
	fmt.Fprintln(w)
	for i, n := range notes {
		fmt.Fprintf(w, "(%d) %s\n", i+1, n)
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, b := range backends {
		fmt.Fprintf(w, "%-9s %s\n%-9s %s\n", b.Name, b.URL, "", b.Durability)
	}
}

func (s *session) migrate() *cobra.Command {
	return noun("migrate", "The schema of a store: plan, up, down, status, grants",
		`An embedded store brings its schema up to date when it is opened. On a
server that needs these commands, or --auto-migrate.`,
		s.migratePlan(), s.migrateUp(), s.migrateDown(), s.migrateStatus(), s.migrateGrants())
}

// stepInfo is a step of a schema, as JSON.
type stepInfo struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"`
	Newer     bool       `json:"newer,omitempty"` // this program does not know it
}

// migrator opens the store whatever its schema is; look leaves that as it is.
func (s *session) migrator(ctx context.Context, look bool) (m store.Migrator, opened store.Store, err error) {
	opened, err = s.openAs(ctx, open.Config{NoCheck: true, Look: look, Existing: s.dryRun})
	if err == nil {
		m, err = partOf[store.Migrator](opened, "migrate")
	}
	return m, opened, err
}

func (s *session) migratePlan() *cobra.Command {
	return &cobra.Command{
		Use: "plan", Short: "Say which steps are missing, and which programs have to stop first", Args: count(0, 0, "nothing"),
		Long: `Lists the steps that "pawl migrate up" would apply, and the programs that are registered
and live: all of them have to stop before. It changes nothing.`,
		Example: `  pawl migrate plan`,
		RunE:    func(c *cobra.Command, _ []string) error { return s.planMigration(c.Context()) },
	}
}

func (s *session) planMigration(ctx context.Context) error {
	m, opened, err := s.migrator(ctx, true)
	if err != nil {
		return err
	}
	plan, err := operate.PlanMigration(ctx, opened, m)
	if err != nil {
		return cannot(err, "plan the migration")
	}
	return s.one(plan, plan.Describe)
}

func (s *session) migrateUp() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Bring the schema up to date", Args: count(0, 0, "nothing"),
		Long: `Applies the missing steps, each in a transaction and under a lock: several processes
may run it at once. --dry-run prints the plan.`,
		Example: `  pawl migrate up
  pawl migrate up --dry-run`,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.dryRun {
				return s.planMigration(c.Context())
			}
			m, _, err := s.migrator(c.Context(), false)
			if err != nil {
				return err
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
			m, _, err := s.migrator(c.Context(), s.dryRun)
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
			m, _, err := s.migrator(c.Context(), true)
			if err != nil {
				return err
			}
			steps, err := m.Migrations(c.Context())
			if err != nil {
				return cannot(err, "look at the schema")
			}
			return s.printSteps(steps, "the store has no schema")
		},
	}
}

// granter is a store of a database whose users need grants to append by SQL.
type granter interface {
	SendGrants(ctx context.Context, role string) ([]string, error)
}

func (s *session) migrateGrants() *cobra.Command {
	return &cobra.Command{
		Use: "grants ROLE", Short: "Print the grants that let a database role call pawl_send", Args: count(1, 1, "a role"),
		Long: "Prints the GRANT statements with which a role of the database can append by SQL, in its own\n" +
			"transactions, and do nothing else with the store. It changes nothing: give them to psql. PostgreSQL only.",
		Example: `  pawl migrate grants shop   # needs PostgreSQL
  pawl migrate grants shop | psql "$DATABASE_URL"   # needs PostgreSQL`,
		RunE: func(c *cobra.Command, args []string) error {
			opened, err := s.openAs(c.Context(), open.Config{Look: true})
			if err != nil {
				return err
			}
			g, err := partOf[granter](opened, "print grants")
			if err != nil {
				return err
			}
			lines, err := g.SendGrants(c.Context(), args[0])
			if err != nil {
				return cannot(err, "print grants")
			}
			_, _ = fmt.Fprintln(s.out, strings.Join(lines, "\n")) // the error comes again with Flush
			return s.out.Flush()
		},
	}
}

func (s *session) printSteps(steps []store.Migration, empty string) error {
	l := s.list(">VERSION", "NAME", "APPLIED AT")
	for _, step := range steps {
		info := stepInfo{Version: step.Version, Name: step.Name, Newer: step.Newer}
		if !step.AppliedAt.IsZero() {
			info.AppliedAt = new(step.AppliedAt.UTC())
		}
		l.add(info, number(info.Version), info.Name, cmp.Or(whenever(info.AppliedAt), "not applied"))
	}
	return l.end("%s", empty)
}

func (s *session) blobs() *cobra.Command {
	return noun("blobs", "Files of large bodies",
		`With blobs=FOLDER and offload=BYTES in the URL of a store, bodies above that size
are kept in files in that folder.`, s.blobsCollect())
}

func (s *session) blobsCollect() *cobra.Command {
	age := flag.Duration(operate.BlobAge)
	c := &cobra.Command{
		Use: "collect", Short: "Remove files that no message needs any more", Args: count(0, 0, "nothing"),
		Long: `Removes the files of bodies whose messages are finished and that have not been used
for some time. Messages that wait or are retained, and dead letters, keep their files.
Nothing else removes files: run it once a day. It is safe while workers run.

Over Kafka, --older-than must be longer than the retention of the topics if other
programs read them.`,
		Example: `  pawl blobs collect --dry-run --store 'sqlite:pawl.db?blobs=bodies'
  pawl blobs collect --older-than 48h --store 'sqlite:pawl.db?blobs=bodies'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if age <= 0 {
				return usage("--older-than is a duration like 24h", "--older-than %v", time.Duration(age))
			}
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			done, err := operate.CollectBlobs(c.Context(), opened, time.Duration(age), s.dryRun)
			if err != nil {
				return cannot(err, "collect files of bodies")
			}
			return s.one(done, func(w io.Writer) { done.Describe(w, s.dryRun) })
		},
	}
	c.Flags().Var(&age, "older-than", "keep files that were used more recently than this")
	return c
}
