package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// says fails the test unless err has that code and a hint for a person.
func says(t *testing.T, err error, code error, hint string) {
	t.Helper()
	e, ok := errors.AsType[*store.Error](err)
	if !ok || !errors.Is(err, code) {
		t.Fatalf("error %v (%T); want %v", err, err, code)
	}
	if e.Hint == "" || !strings.Contains(e.Hint, hint) {
		t.Fatalf("hint %q; want something about %q", e.Hint, hint)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		code   error
		hint   string
	}{
		"no path":     {Config{}, store.ErrInvalid, "path of a file"},
		"memory":      {Config{Path: ":memory:"}, store.ErrInvalid, "store/memory"},
		"a folder":    {Config{Path: dir}, store.ErrInvalid, filepath.Join(dir, "pawl.db")},
		"no folder":   {Config{Path: filepath.Join(dir, "no", "pawl.db")}, store.ErrNotFound, "mkdir"},
		"no database": {Config{Path: text}, store.ErrCorrupt, "is the path right"},
		"synchronous": {Config{Path: filepath.Join(dir, "x"), Synchronous: "OFF"}, store.ErrInvalid, "FULL"},
		"cache":       {Config{Path: filepath.Join(dir, "x"), Cache: -1}, store.ErrInvalid, "KiB"},
		"nothing to see": {Config{Path: filepath.Join(dir, "x"), ReadOnly: true}, store.ErrNotFound,
			"for writing once"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), c.config)
			says(t, err, c.code, c.hint)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{Path: filepath.Join(dir, "late")}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a context that is over: %v", err)
	}
}

// TestPathsAreTakenLiterally: no character of a path means anything else.
func TestPathsAreTakenLiterally(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"a b.db", "what?.db", "hash#.db", "per%20cent.db", "file:x.db", "ünï.db",
		filepath.Join(t.TempDir(), "q?mode=ro#&.db")} {
		s := open(t, Config{Path: path})
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestSchemaIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	raw := application(t, path)
	put := func() error {
		_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
		return err
	}
	must(t, put())
	if _, err := raw.Exec("INSERT INTO pawl_migration VALUES (99, 'future', 0)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{{Path: path}, {Path: path, ReadOnly: true}} {
		_, err := Open(t.Context(), c)
		says(t, err, store.ErrSchema, "newer version")
	}
	steps, err := s.Migrations(t.Context())
	if must(t, err); len(steps) < 2 || !steps[len(steps)-1].Newer || steps[0].Newer {
		t.Errorf("migrations: %+v", steps)
	}
	_, err = s.MigrateDown(t.Context(), 0)
	says(t, err, store.ErrSchema, "newer version")
	must(t, put()) // who runs beside a newer schema goes on
	if _, err := raw.Exec("DELETE FROM pawl_migration WHERE version = 99; DROP TABLE pawl_msg"); err != nil {
		t.Fatal(err)
	}
	says(t, put(), store.ErrSchema, "migrate up")
	_, err = s.Get(t.Context(), "x")
	says(t, err, store.ErrSchema, "migrate up")
}

// TestLockedFile: another transaction is open on the file.
func TestLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path, Wait: 50 * time.Millisecond})
	patient := open(t, Config{Path: path})
	put := func(s *Store, ctx context.Context) error {
		_, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "t"}))
		return err
	}
	tx, err := application(t, path).Begin()
	must(t, err)
	if _, err := tx.Exec("CREATE TABLE mine (x)"); err != nil {
		t.Fatal(err)
	}
	says(t, put(s, t.Context()), store.ErrUnavailable, "transaction open")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := put(patient, ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call whose time is over: %v", err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("who only reads is stalled: %v", err)
	}
	if ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}},
		store.Lease{For: time.Second}); err != nil || len(ds) > 0 {
		t.Errorf("who finds nothing is stalled: %v, %v", ds, err)
	}
	waits := make(chan error)
	go func() { waits <- put(patient, t.Context()) }()
	must(t, tx.Rollback())
	must(t, <-waits)
	must(t, put(s, t.Context()))
	if n := burn(t, s, "t", 10); n != 2 {
		t.Errorf("%d messages; want the two that were not refused", n)
	}
}

func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	load(t, s, 2000, 0)
	must(t, s.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	junk := []byte(strings.Repeat("junk", 1024))
	for at := int64(40 * 4096); at < info.Size(); at += int64(len(junk)) {
		_, err := f.WriteAt(junk, at)
		must(t, err)
	}
	must(t, f.Close())
	s = open(t, Config{Path: path})
	_, err = s.Claim(t.Context(), []store.Want{{Topic: "bench", Limit: 2000}}, store.Lease{For: time.Minute})
	says(t, err, store.ErrCorrupt, "backup")
}

func TestReadOnlyStoreLooksOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	w := open(t, Config{Path: path})
	receipts, err := w.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", Body: []byte("x")}))
	must(t, err)
	r := open(t, Config{Path: path, ReadOnly: true})
	if m, err := r.Get(t.Context(), receipts[0].ID); err != nil || string(m.Body) != "x" {
		t.Errorf("get: %v, %v", m, err)
	}
	if st, err := r.Stats(t.Context()); err != nil || len(st) != 1 || st[0].Waiting != 1 {
		t.Errorf("stats: %v, %v", st, err)
	}
	_, err = r.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
	says(t, err, store.ErrDenied, "reading only")
	_, err = r.Claim(t.Context(), nil, store.Lease{For: 1})
	says(t, err, store.ErrDenied, "reading only")
	_, err = r.MigrateUp(t.Context())
	says(t, err, store.ErrDenied, "reading only")
}

// application is the handle of an application that has the file open, too.
func application(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=rw&_txlock=immediate&_busy_timeout=5000"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The cache of the connection that writes is as large as it was asked for.
func TestCache(t *testing.T) {
	for asked, want := range map[int]int64{0: -16_000, 500: -500} {
		s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db"), Cache: asked})
		must(t, s.writer.conn.query("PRAGMA cache_size", func(r row) error {
			if got := r.int(0); got != want {
				t.Errorf("cache %d: cache_size is %d, want %d", asked, got, want)
			}
			return nil
		}))
	}
}
