package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func steps() ([]sqlstore.Step, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return sqlstore.Steps(folder)
}

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
	var all []store.Migration
	err = db.query(selectMigrations, func(r row) error {
		all = append(all, store.Migration{Version: int(r.int(0)), Name: r.text(1), AppliedAt: moment(r.int(2))})
		return nil
	})
	return all, err
}

// Migrations implements [store.Migrator].
func (s *Store) Migrations(ctx context.Context) ([]store.Migration, error) {
	all, have, err := s.history(ctx)
	if err != nil {
		return nil, s.readError(ctx, "migrations", err)
	}
	return sqlstore.Status(all, have), nil
}

// history returns the steps of this program and those that the file has seen.
func (s *Store) history(ctx context.Context) (all []sqlstore.Step, have []store.Migration, err error) {
	if all, err = steps(); err != nil {
		return nil, nil, err
	}
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = tx.Rollback() }()
	db := newTxSession(ctx, tx)
	defer db.close()
	if have, err = applied(db); err == nil {
		err = haveTables(db, "open "+s.path, all, have)
	}
	return all, have, err
}

const selectTables = `SELECT name FROM sqlite_schema WHERE type = 'table'`

// createdOrDropped matches the tables that a step makes or removes.
var createdOrDropped = regexp.MustCompile(`(?m)^(CREATE|DROP) TABLE (\w+)`)

// tablesOf returns the tables that are there after some steps.
func tablesOf(all []sqlstore.Step, applied func(version int) bool) map[string]bool {
	tables := map[string]bool{}
	for _, step := range all {
		if !applied(step.Version) {
			continue
		}
		for _, m := range createdOrDropped.FindAllStringSubmatch(step.Up, -1) {
			tables[m[2]] = m[1] == "CREATE"
		}
	}
	return tables
}

// haveTables refuses a file that lacks tables which its applied steps have created: no
// step can restore their contents. db is a snapshot.
func haveTables(db session, op string, all []sqlstore.Step, have []store.Migration) error {
	there := map[string]bool{}
	err := db.query(selectTables, func(r row) error {
		there[r.text(0)] = true
		return nil
	})
	if err != nil {
		return err
	}
	damaged := func(why string, args ...any) error {
		return &store.Error{Op: op, Code: store.ErrSchema, Err: fmt.Errorf(why, args...),
			Hint: "the file is damaged, and no migration brings back what is gone: stop all processes on it, then restore a backup, or begin with a new file"}
	}
	if len(have) == 0 {
		for _, name := range slices.Sorted(maps.Keys(tablesOf(all, func(int) bool { return true }))) {
			if there[name] {
				return damaged("table %s is there, but nothing is recorded in pawl_migration as applied", name)
			}
		}
		return nil
	}
	for name, wanted := range tablesOf(all, func(version int) bool {
		return slices.ContainsFunc(have, func(m store.Migration) bool { return m.Version == version })
	}) {
		if wanted && !there[name] {
			return damaged("the schema is recorded as applied, but table %s is missing", name)
		}
	}
	return nil
}

// MigrateUp implements [store.Migrator]. [Open] has done it already.
func (s *Store) MigrateUp(ctx context.Context) (done []store.Migration, err error) {
	err = s.write(ctx, &call{op: "migrate", direct: func(w *writer) (err error) {
		done, err = w.migrateUp()
		return err
	}})
	return done, err
}

// MigrateDown implements [store.Migrator].
func (s *Store) MigrateDown(ctx context.Context, to int) (done []store.Migration, err error) {
	err = s.write(ctx, &call{op: "migrate", direct: func(w *writer) (err error) {
		done, err = w.migrateDown(to)
		return err
	}})
	return done, err
}

// upToDate tells, without a write transaction, whether no step is missing. It is
// no answer for a file that a newer program has migrated.
func (w *writer) upToDate() (bool, error) {
	all, err := steps()
	if err != nil {
		return false, err
	}
	have, err := applied(w.conn)
	if err == nil && haveTables(w.conn, "", all, have) != nil {
		return false, nil // checked again, while no other process can change it
	}
	return err == nil && len(have) > 0 && have[len(have)-1].Version == len(all) &&
		len(sqlstore.Missing(all, have)) == 0, err
}

// migrateUp applies what is missing.
func (w *writer) migrateUp() (done []store.Migration, err error) {
	// Opening a file does not wait for writers. While the log is recovered after a
	// crash, even a read fails; a transaction waits for that.
	if current, err := w.upToDate(); current || err != nil && !isBusy(err) {
		return nil, err
	}
	for {
		m, err := w.step(func(all []sqlstore.Step, have []store.Migration) (m store.Migration, err error) {
			missing := sqlstore.Missing(all, have)
			if len(missing) == 0 {
				return m, nil
			}
			step := missing[0]
			m = store.Migration{Version: step.Version, Name: step.Name, AppliedAt: moment(w.now().UnixMicro())}
			if err := w.conn.script(step.Up); err != nil {
				return m, err
			}
			_, err = w.conn.exec(insertMigration, int64(m.Version), m.Name, m.AppliedAt.UnixMicro())
			return m, err
		})
		if err != nil || m.Version == 0 {
			return done, err
		}
		done = append(done, m)
	}
}

// migrateDown takes back the newest steps. After the last the file is as it was
// before there was a store in it.
func (w *writer) migrateDown(to int) (done []store.Migration, err error) {
	if to < outboxNeeds {
		if err := w.conn.script(dropOutbox); err != nil {
			return nil, err
		}
	}
	for {
		m, err := w.step(func(all []sqlstore.Step, have []store.Migration) (m store.Migration, err error) {
			undo := sqlstore.Undo(all, have, to)
			if len(undo) == 0 {
				return m, nil
			}
			step := undo[0]
			m = store.Migration{Version: step.Version, Name: step.Name}
			if err := w.conn.script(step.Down); err != nil {
				return m, err
			}
			if step.Version == 1 {
				return m, w.conn.script(dropMigrations)
			}
			_, err = w.conn.exec(deleteMigration, int64(m.Version))
			return m, err
		})
		if err != nil || m.Version == 0 {
			return done, err
		}
		done = append(done, m)
	}
}

// step runs do in a transaction, unless a newer program was here before.
func (w *writer) step(do func([]sqlstore.Step, []store.Migration) (store.Migration, error)) (m store.Migration,
	err error) {
	all, err := steps()
	if err != nil {
		return m, err
	}
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
	if n := len(have); n > 0 && have[n-1].Version > len(all) {
		return m, sqlstore.CheckVersion("migrate "+w.path, all, have)
	}
	if err := haveTables(w.conn, "open "+w.path, all, have); err != nil {
		return m, err
	}
	if m, err = do(all, have); err != nil {
		return m, err
	}
	_, err = w.conn.exec("COMMIT")
	return m, err
}

// checkSchema is for readers, who cannot migrate.
func (s *Store) checkSchema(ctx context.Context) error {
	if s.noCheck {
		return nil
	}
	all, have, err := s.history(ctx)
	if err != nil {
		return err
	}
	return sqlstore.CheckVersion("open "+s.path, all, have)
}
