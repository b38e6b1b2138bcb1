package arm

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// Two real libraries for SQLite in one process: the store refuses a transaction of the other one, notices within a
// second that it has the file open, and does not open such a file.
func TestTwoLibrariesInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate&_journal_mode=WAL")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := store.NewBatch(pawl.Message{Topic: "t"})
	if _, err := s.AppendTx(t.Context(), tx, batch); !errors.Is(err, sqlite.ErrOtherLibrary) {
		t.Errorf("a transaction of the other library: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); err == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the store does not notice the other library")
		}
		_, err = s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
	}
	if !errors.Is(err, sqlite.ErrOtherLibrary) {
		t.Errorf("while the other library has the file: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); !errors.Is(err, sqlite.ErrOtherLibrary) {
		t.Errorf("open: %v", err)
	}
}
