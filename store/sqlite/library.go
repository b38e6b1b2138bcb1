package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"

	driversqlite "modernc.org/sqlite"

	"github.com/pawl-dev/pawl/store"
)

// ErrOtherLibrary is the cause of the error of [Store.AppendTx] for a transaction of another
// library for SQLite than modernc.org/sqlite, and of [Open] and every call while another library
// of this process has the file open. POSIX locks belong to a process: two libraries in one do not
// exclude each other, and what one closes ends the locks of the other.
var ErrOtherLibrary = errors.New("another library for SQLite in this process uses the file")

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

// selectFiles is that, and the files of a connection, a line each.
const selectFiles = `SELECT (` + selectLibrary + `), (SELECT group_concat(file, char(10)) FROM pragma_database_list)`

// checkLibrary refuses a transaction of another library, or on another file.
func (s *core) checkLibrary(ctx context.Context, tx *sql.Tx) error {
	var library, files string
	err := tx.QueryRowContext(ctx, selectFiles).Scan(&library, &files)
	if _, own := errors.AsType[*driversqlite.Error](err); own || errors.Is(err, sql.ErrTxDone) {
		return err
	}
	if err == nil && library == s.library {
		for path := range strings.SplitSeq(files, "\n") {
			if info, err := os.Stat(path); err == nil && os.SameFile(info, s.files.files[s.path]) {
				return nil
			}
		}
		return &store.Error{Op: "append", Code: store.ErrInvalid, Err: errors.New("the transaction is on another file"),
			Hint: "begin it on " + s.path}
	}
	return &store.Error{Op: "append", Code: store.ErrInvalid, Err: ErrOtherLibrary, Hint: oneLibrary}
}

const oneLibrary = `open the file with modernc.org/sqlite, sql.Open("sqlite", …), everywhere in this process, or ` +
	"keep the tables of the application in another file and append after the commit"

// aloneInProcess reports whether no other library of this process has the file open. A library has
// one descriptor of the shared memory, -shm, however many connections it has. Where the system does
// not list a process's descriptors, nothing is noticed.
func aloneInProcess(shm os.FileInfo) bool {
	const here = "/dev/fd"
	open, _ := os.ReadDir(here)
	n := 0
	for _, fd := range open {
		if info, err := os.Stat(filepath.Join(here, fd.Name())); err == nil && os.SameFile(info, shm) {
			n++
		}
	}
	return n <= 1
}
