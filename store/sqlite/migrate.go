package sqlite

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// migrator brings the schema up to date, and installs what applications append with.
type migrator struct{ *core }

//go:embed migrations/*.sql
var migrationFiles embed.FS

var steps = sqlstore.Embedded(migrationFiles)

const (
	createMigrations = `CREATE TABLE IF NOT EXISTS pawl_migration (
		version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`
	hasMigrations    = `SELECT count(*) FROM sqlite_schema WHERE name = 'pawl_migration'`
	selectMigrations = `SELECT version, name, applied_at FROM pawl_migration ORDER BY version`
	insertMigration  = `INSERT INTO pawl_migration VALUES (?, ?, ?)`
	dropMigrations   = `DROP TABLE pawl_migration`
	deleteMigration  = `DELETE FROM pawl_migration WHERE version = ?`
)

// applied returns the migrations that the file has seen.
func applied(db session) ([]store.Migration, error) {
	cols, _, err := first(db, hasMigrations)
	if err != nil || cols[0] == 0 {
		return nil, err
	}
	return collect(db, func(r row) (store.Migration, error) {
		return store.Migration{Version: int(r.int(0)), Name: r.text(1), AppliedAt: moment(r.int(2))}, nil
	}, selectMigrations)
}

// Migrations implements [store.Migrator].
func (s *migrator) Migrations(ctx context.Context) ([]store.Migration, error) {
	have, err := s.history(ctx)
	if err != nil {
		return nil, s.readError(ctx, "migrations", err)
	}
	return sqlstore.Status(steps(), have), nil
}

// history returns the steps that the file has seen.
func (s *migrator) history(ctx context.Context) (have []store.Migration, err error) {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	db := newTxSession(ctx, tx)
	defer db.close()
	if have, err = applied(db); err == nil {
		err = haveTables(db, "open "+s.cfg.Path, have)
	}
	return have, err
}

const selectTables = `SELECT name FROM sqlite_schema WHERE type = 'table'`

// createdOrDropped matches the tables that a step makes or removes.
var createdOrDropped = regexp.MustCompile(`(?m)^(CREATE|DROP) TABLE (\w+)`)

// tablesOf returns the tables that are there after some steps.
func tablesOf(some []sqlstore.Step) map[string]bool {
	tables := map[string]bool{}
	for _, step := range some {
		for _, m := range createdOrDropped.FindAllStringSubmatch(step.Up, -1) {
			tables[m[2]] = m[1] == "CREATE"
		}
	}
	return tables
}

// haveTables refuses a file that lacks tables which its applied steps have created: no
// step can restore their contents. db is a snapshot.
func haveTables(db session, op string, have []store.Migration) error {
	there, err := collect(db, func(r row) (string, error) { return r.text(0), nil }, selectTables)
	if err != nil {
		return err
	}
	damaged := func(why string, args ...any) error {
		return &store.Error{Op: op, Code: store.ErrSchema, Err: fmt.Errorf(why, args...),
			Hint: "the file is damaged, and no migration brings back what is gone: stop all processes on it, then restore a backup, or begin with a new file"}
	}
	if len(have) == 0 {
		for _, name := range slices.Sorted(maps.Keys(tablesOf(steps()))) {
			if slices.Contains(there, name) {
				return damaged("table %s is there, but nothing is recorded in pawl_migration as applied", name)
			}
		}
		return nil
	}
	made := slices.DeleteFunc(slices.Clone(steps()), func(step sqlstore.Step) bool {
		return !slices.ContainsFunc(have, func(m store.Migration) bool { return m.Version == step.Version })
	})
	for name, wanted := range tablesOf(made) {
		if wanted && !slices.Contains(there, name) {
			return damaged("the schema is recorded as applied, but table %s is missing", name)
		}
	}
	return nil
}

// MigrateUp implements [store.Migrator]. [Open] has done it already.
func (s *migrator) MigrateUp(ctx context.Context) ([]store.Migration, error) {
	return s.migrate(ctx, (*writer).migrateUp)
}

// MigrateDown implements [store.Migrator].
func (s *migrator) MigrateDown(ctx context.Context, to int) ([]store.Migration, error) {
	return s.migrate(ctx, func(w *writer) ([]store.Migration, error) { return w.migrateDown(to) })
}

func (s *migrator) migrate(ctx context.Context, do func(*writer) ([]store.Migration, error)) (done []store.Migration,
	err error) {
	err = s.write(ctx, &call{op: "migrate", direct: func(w *writer) (err error) {
		done, err = do(w)
		return err
	}})
	return done, err
}

// upToDate tells, without a write transaction, whether no step is missing. It is
// no answer for a file that a newer program has migrated.
func (w *writer) upToDate() (bool, error) {
	have, err := applied(w.conn)
	if err == nil && haveTables(w.conn, "", have) != nil {
		return false, nil // checked again, while no other process can change it
	}
	return err == nil && len(have) > 0 && have[len(have)-1].Version == len(steps()) &&
		len(sqlstore.Missing(steps(), have)) == 0, err
}

// migrateUp applies what is missing.
func (w *writer) migrateUp() ([]store.Migration, error) {
	// Opening a file does not wait for writers. While the log is recovered after a
	// crash, even a read fails; a transaction waits for that.
	if current, err := w.upToDate(); current || err != nil && !isBusy(err) {
		return nil, err
	}
	return w.stepAll(sqlstore.Up)
}

// migrateDown takes back the newest steps. After the last the file is as it was
// before there was a store in it.
func (w *writer) migrateDown(to int) ([]store.Migration, error) {
	return w.stepAll(sqlstore.Down(to))
}

// stepAll makes one step after the other.
func (w *writer) stepAll(next sqlstore.Next) (done []store.Migration, err error) {
	for {
		m, err := w.step(next)
		if err != nil || m.Version == 0 {
			return done, err
		}
		done = append(done, m)
	}
}

// step makes the next step, if there is one, in a transaction, unless a newer program was
// here before.
func (w *writer) step(next sqlstore.Next) (m store.Migration, err error) {
	if err := w.lockDatabase(); err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			_, _ = w.conn.exec("ROLLBACK")
		}
		w.topics.forget()
	}()
	if _, err := w.conn.exec(createMigrations); err != nil {
		return m, err
	}
	have, err := applied(w.conn)
	if err != nil {
		return m, err
	}
	if err := sqlstore.CheckKnown("migrate "+w.cfg.Path, steps(), have); err != nil {
		return m, err
	}
	if err := haveTables(w.conn, "open "+w.cfg.Path, have); err != nil {
		return m, err
	}
	if step, sql, more := next(steps(), have); more {
		if m, err = w.apply(step, sql); err != nil {
			return m, err
		}
	}
	_, err = w.conn.exec("COMMIT")
	return m, err
}

// apply runs the statements of a step, and records that it is applied, or is not any more.
func (w *writer) apply(step sqlstore.Step, sql string) (m store.Migration, err error) {
	m = store.Migration{Version: step.Version, Name: step.Name}
	if step.Version == 1 && sql == step.Down {
		sql = dropOutbox + ";" + sql
	}
	if err := w.conn.script(sql); err != nil {
		return m, err
	}
	switch {
	case sql == step.Up:
		m.AppliedAt = moment(w.cfg.Now().UnixMicro())
		_, err = w.conn.exec(insertMigration, int64(m.Version), m.Name, m.AppliedAt.UnixMicro())
	case step.Version == 1:
		err = w.conn.script(dropMigrations)
	default:
		_, err = w.conn.exec(deleteMigration, int64(m.Version))
	}
	return m, err
}

// checkSchema is for readers, who cannot migrate.
func (s *migrator) checkSchema(ctx context.Context) error {
	if s.cfg.NoCheck {
		return nil
	}
	have, err := s.history(ctx)
	if err != nil {
		return err
	}
	return sqlstore.CheckVersion("open "+s.cfg.Path, steps(), have)
}
