package sqlite

import (
	"context"
	"database/sql"
	"errors"

	driversqlite "modernc.org/sqlite"

	"github.com/pawl-dev/pawl/store"
)

// ErrOtherLibrary is the cause of the error of [Store.AppendTx] for a transaction of another
// library for SQLite than modernc.org/sqlite. POSIX locks belong to a process: what one
// library closes ends the locks of the other, and then both write at once.
var ErrOtherLibrary = errors.New("the transaction is one of another library for SQLite in this process")

// selectLibrary tells libraries apart. Two of one version of SQLite were compiled with
// different options.
const selectLibrary = `SELECT sqlite_source_id() || ' ' || (SELECT group_concat(compile_options) FROM pragma_compile_options)`

// learnLibrary notes which library this package uses.
func (w *writer) learnLibrary() error {
	return w.conn.query(selectLibrary, func(r row) error {
		w.library = r.text(0)
		return nil
	})
}

// checkLibrary refuses a transaction of another library.
func (s *core) checkLibrary(ctx context.Context, tx *sql.Tx) error {
	var library string
	err := tx.QueryRowContext(ctx, selectLibrary).Scan(&library)
	if _, own := errors.AsType[*driversqlite.Error](err); own || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	if err == nil && library == s.library {
		return nil
	}
	return &store.Error{Op: "append", Code: store.ErrInvalid, Err: ErrOtherLibrary,
		Hint: `open the file with modernc.org/sqlite, sql.Open("sqlite", …), everywhere in this process, or keep ` +
			"the tables of the application in another file and append after the commit"}
}
