package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	driversqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// diagnosis is the meaning of an error of SQLite for a caller, and what to do.
type diagnosis struct {
	code error
	hint string
}

// diagnoses are by primary result code.
var diagnoses = map[int]diagnosis{
	sqlite3.SQLITE_BUSY: {store.ErrUnavailable,
		"another process has a write transaction open on this file; find it (`fuser FILE`) and let it commit, or allow more time"},
	sqlite3.SQLITE_LOCKED: {store.ErrUnavailable,
		"another connection of this process has a write transaction open on this file; let it commit"},
	sqlite3.SQLITE_PROTOCOL: {store.ErrUnavailable,
		"too many processes opened the file at once; try again"},
	sqlite3.SQLITE_FULL: {store.ErrFull,
		"make room on the disk; nothing was lost, and work goes on as soon as there is some"},
	sqlite3.SQLITE_IOERR: {store.ErrUnavailable,
		"look into the system's log for errors of the disk or the file system; a network file system cannot hold this store; " +
			"if the file was moved or is new, its -wal and -shm are those of another one: put it back"},
	sqlite3.SQLITE_CORRUPT: {store.ErrCorrupt,
		"stop all processes, keep a copy of the file with its -wal and -shm, and restore a backup or try `sqlite3 FILE .recover`"},
	sqlite3.SQLITE_NOTADB: {store.ErrCorrupt,
		"the file is not an SQLite database; is the path right?"},
	sqlite3.SQLITE_READONLY: {store.ErrDenied,
		"this user needs write permission on the file, on its -wal and -shm, and on the folder"},
	sqlite3.SQLITE_PERM: {store.ErrDenied,
		"this user needs write permission on the file and its folder"},
	sqlite3.SQLITE_AUTH: {store.ErrDenied, ""},
	sqlite3.SQLITE_CANTOPEN: {store.ErrDenied,
		"this user needs read and write permission on the file and its folder"},
	sqlite3.SQLITE_TOOBIG: {store.ErrTooLarge, "split the call"},
	sqlite3.SQLITE_NOMEM:  {store.ErrUnavailable, "give the process more memory"},
}

// wrap makes a store's error of err, which may be nil or one already.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*store.Error](err); done {
		return err
	}
	if _, done := errors.AsType[*pawl.InvalidError](err); done {
		return err
	}
	e := &store.Error{Op: op, Err: err}
	if from, ok := errors.AsType[*driversqlite.Error](err); ok {
		d := diagnose(from)
		e.Code, e.Hint = d.code, d.hint
	}
	return e
}

func diagnose(err *driversqlite.Error) diagnosis {
	switch code := err.Code(); {
	case code == sqlite3.SQLITE_IOERR_SHMSIZE, code == sqlite3.SQLITE_IOERR_SHMMAP &&
		strings.Contains(err.Error(), "space"):
		return diagnoses[sqlite3.SQLITE_FULL]
	case code == sqlite3.SQLITE_IOERR_WRITE: // a full disk itself is SQLITE_FULL
		return diagnosis{store.ErrFull,
			"a quota or a limit of the size of files (`ulimit -f`) refuses more, or the disk fails: look into the system's log; work goes on as soon as it can write"}
	case code&0xff == sqlite3.SQLITE_ERROR && noSuchTable(err):
		return diagnosis{store.ErrSchema,
			"the schema was changed meanwhile: open the store again; `pawl migrate up` tells if it is damaged"}
	default:
		return diagnoses[code&0xff]
	}
}

func noSuchTable(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no such table") || strings.Contains(text, "no such column") ||
		strings.Contains(text, "has no column named")
}

// primary is SQLite's result code within err, without the extension; 0 if there
// is none.
func primary(err error) int {
	if e, ok := errors.AsType[*driversqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// ended is the error of a call whose context is over.
func ended(ctx context.Context, op string) error {
	return &store.Error{Op: op, Err: ctx.Err()}
}

func closed(op string) error { return &store.Error{Op: op, Code: store.ErrClosed} }

func notFound(op, id string) error {
	return &store.Error{Op: fmt.Sprintf("%s %s", op, id), Code: store.ErrNotFound}
}

func denied(op string) error {
	return &store.Error{Op: op, Code: store.ErrDenied, Hint: "the store was opened for reading only"}
}
