package arm

import (
	"database/sql"
	"fmt"

	_ "github.com/mattn/go-sqlite3" // the driver that goqite's and backlite's documentation opens

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// openSQLite opens a file as the documentation of goqite and backlite does,
// at the synchronous setting of the run.
func openSQLite(path string, conns int) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal=WAL&_timeout=5000&_fk=true&_synchronous="+plan.SQLiteSync)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}
