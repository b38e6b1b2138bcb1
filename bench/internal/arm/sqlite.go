package arm

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/mattn/go-sqlite3" // the driver that goqite's and backlite's documentation opens

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// sqliteArm is what arms on a SQLite file share. They have no order per key.
type sqliteArm struct {
	name, path string
	db         *sql.DB
}

// open opens the file as the documentation of goqite and backlite does, with one
// connection, at the synchronous setting of the run.
func (a *sqliteArm) open() (err error) {
	a.db, err = sql.Open("sqlite3",
		"file:"+a.path+"?_journal=WAL&_timeout=5000&_fk=true&_synchronous="+plan.SQLiteSync)
	if err != nil {
		return fmt.Errorf("open %s: %w", a.path, err)
	}
	a.db.SetMaxOpenConns(1)
	a.db.SetMaxIdleConns(1)
	return nil
}

// count counts the jobs that are left in a table.
func (a *sqliteArm) count(ctx context.Context, table string) (left int, err error) {
	if err := a.db.QueryRowContext(ctx, `SELECT count(*) FROM `+table).Scan(&left); err != nil {
		return 0, fmt.Errorf("count the jobs of %s: %w", table, err)
	}
	return left, nil
}

// Ordered: no order per key.
func (*sqliteArm) Ordered() bool { return false }

func (a *sqliteArm) Close() error {
	if a.db == nil {
		return nil
	}
	return a.db.Close()
}
