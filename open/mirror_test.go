package open

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// closer tells that it was closed.
type closer struct {
	*memory.Store
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return c.Store.Close()
}

// A mirrored store that is closed while it is being opened does not stay open.
func TestCloseWhileTheMirroredStoreIsOpened(t *testing.T) {
	opens, goOn := make(chan struct{}), make(chan struct{})
	opened := &closer{Store: memory.New(memory.Config{})}
	l := newLazy(Config{})
	l.open = func(context.Context) (store.Store, error) {
		close(opens)
		<-goOn
		return opened, nil
	}
	got := make(chan error)
	go func() {
		_, err := l.get(t.Context())
		got <- err
	}()
	<-opens
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(goOn)
	if err := <-got; !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want store.ErrClosed", err)
	}
	if !opened.closed {
		t.Error("it was opened, and stays open")
	}
}

// TestLazyStore is opened when it is needed, and again after it could not be.
func TestLazyStore(t *testing.T) {
	tries := 0
	l := newLazy(Config{})
	l.open = func(context.Context) (store.Store, error) {
		if tries++; tries < 3 {
			return nil, errors.New("nobody there")
		}
		return memory.New(memory.Config{}), nil
	}
	batch := store.NewBatch(pawl.Message{Topic: "mail", Key: []byte("ann")})
	for range 2 {
		if _, err := l.Append(t.Context(), batch); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("append: %v", err)
		}
	}
	for range 2 {
		if _, err := l.Append(t.Context(), batch); err != nil {
			t.Errorf("append: %v", err)
		}
	}
	if tries != 3 {
		t.Errorf("it was opened %d times", tries)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Append(t.Context(), batch); !errors.Is(err, store.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}

// twiceNamed are two URLs of one file that do not look alike.
func twiceNamed(t *testing.T) (first, second string) {
	t.Helper()
	folder := t.TempDir()
	return "sqlite:" + filepath.Join(folder, "pawl.db"), "sqlite:" + folder + "/./pawl.db"
}

func openedAt(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: url, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestMirrorOfItself: a process whose mirror is its own store neither appends there nor
// claims there, and opens it once.
func TestMirrorOfItself(t *testing.T) {
	first, second := twiceNamed(t)
	from := openedAt(t, first)
	plans, err := mirror.OpenPlans(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := plans.Put(t.Context(), &mirror.Plan{Topic: "mail", Stage: mirror.Moved}, "tester"); err != nil {
		t.Fatal(err)
	}
	through, err := Mirror(from, Config{URL: second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = through.Close() }()
	for range 2 {
		if _, err := through.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail"})); !errors.Is(err,
			store.ErrConflict) {
			t.Errorf("append: %v", err)
		}
	}
	if ds, err := through.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1}},
		store.Lease{For: time.Second}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("claimed %d: %v", len(ds), err)
	}
}

// TestSameStore tells spellings that are surely of one store.
func TestSameStore(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink(".", "link"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"sqlite:pawl.db", "sqlite:./pawl.db", true},
		{"sqlite:pawl.db", "sqlite:pawl.db?codec=zstd", true},
		{"sqlite:pawl.db", "sqlite:new.db", false},
		{"postgres://me@db/jobs", "postgresql://you:secret@DB:5432/jobs?sslmode=disable", true},
		{"postgres://me@db/jobs", "postgres://me@db/jobs?pawl_schema=new", false},
		{"kafka://a,b:9092?group=x", "kafka://B:9092,a:9092?group=y", true},
		{"kafka://a?prefix=x.", "kafka://a?prefix=y.", false},
		{"sqlite:pawl.db", "SQLite://./link/pawl.db?synchronous=normal", true},
		{"postgres://me@db/jobs", "postgres://me@db:5432/jobs?pawl_schema=pawl&pawl_max_conns=3", true},
		{"sqlite:pawl.db", "kafka://a?fallback=sqlite:pawl.db", false},
		{"memory:", "memory:x", false},
	} {
		if SameStore(c.a, c.b) != c.same {
			t.Errorf("%s and %s are one: %v", c.a, c.b, !c.same)
		}
	}
}
