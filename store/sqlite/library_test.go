package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driversqlite "modernc.org/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// other is a driver like that of another library: its functions say so, or are not there.
type other struct {
	driver.Connector
	says string
}

func (o other) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := o.Connector.Connect(ctx)
	return otherConn{c, o.says}, err
}

type otherConn struct {
	driver.Conn
	says string
}

func (c otherConn) Prepare(query string) (driver.Stmt, error) {
	if strings.Contains(query, "sqlite_source_id") {
		if c.says == "" {
			return nil, errors.New("no such function: sqlite_source_id")
		}
		query = "SELECT '" + c.says + "'"
	}
	return c.Conn.Prepare(query)
}

// TestOtherLibrary: a transaction of another library is refused, and is as it was; one of the library of the
// store is taken.
func TestOtherLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	connector, err := driversqlite.NewConnector(dsn(path, "mode=rw&_txlock=immediate&_busy_timeout=5000"))
	must(t, err)
	own := strings.SplitN(s.library, " COMPILER=", 2)[0]
	for name, c := range map[string]driver.Connector{
		"another version":        other{connector, "2024-01-01 00:00:00 abc ENABLE_FTS5"},
		"the version of our own": other{connector, own + " ENABLE_FTS5"},
		"without the function":   other{connector, ""},
		"our own":                connector,
	} {
		db := sql.OpenDB(c)
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), "CREATE TABLE mine (x)")
		must(t, err)
		receipts, err := s.AppendTx(t.Context(), tx, store.NewBatch(pawl.Message{Topic: "t"}))
		switch {
		case name == "our own" && (err != nil || receipts[0].Err != nil):
			t.Errorf("%s: %v", name, err)
		case name != "our own" && (!errors.Is(err, ErrOtherLibrary) || !errors.Is(err, store.ErrInvalid)):
			t.Errorf("%s: %v", name, err)
		}
		_, err = tx.ExecContext(t.Context(), "INSERT INTO mine VALUES (1)")
		must(t, err)
		must(t, tx.Rollback())
		_, err = s.AppendTx(t.Context(), tx, store.NewBatch(pawl.Message{Topic: "t"}))
		if !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("%s, after its end: %v", name, err)
		}
		must(t, db.Close())
	}
}

// TestOtherFile: a transaction on another file, which has a store of its own, is refused: what it appends would not be
// in the store that was asked.
func TestOtherFile(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "pawl.db"), filepath.Join(t.TempDir(), "other.db")
	s := open(t, Config{Path: path})
	open(t, Config{Path: other})
	for file, wrong := range map[string]bool{path: false, other: true} {
		db, err := sql.Open("sqlite", dsn(file, "mode=rw&_txlock=immediate&_busy_timeout=5000"))
		must(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		err = store.SendTx(t.Context(), s, tx, pawl.Message{Topic: "t"})
		if errors.Is(err, store.ErrInvalid) != wrong {
			t.Errorf("%s: %v", file, err)
		}
		must(t, tx.Commit())
		must(t, db.Close())
	}
}

// TestOtherLibraryHasTheFile: another library of this process that has the file open is noticed by the
// descriptor that it has of the shared memory; connections of our own library have none of their own.
func TestOtherLibraryHasTheFile(t *testing.T) {
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("this system does not list descriptors")
	}
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	own, err := sql.Open("sqlite", dsn(path, "mode=rw"))
	must(t, err)
	defer own.Close()
	must(t, own.Ping())
	open(t, Config{Path: path})
	send := func() error {
		s.files.passed.Add(-int64(lookEvery))
		_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
		return err
	}
	must(t, send())

	shm, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	must(t, err)
	if err := send(); !errors.Is(err, ErrOtherLibrary) || !errors.Is(err, store.ErrLost) {
		t.Errorf("append: %v", err)
	}
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ErrOtherLibrary) {
		t.Errorf("open: %v", err)
	}
	must(t, shm.Close())
	if err := send(); !errors.Is(err, ErrOtherLibrary) {
		t.Errorf("append after the other library is gone, and our locks with it: %v", err)
	}
}
