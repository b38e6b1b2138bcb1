package sqlite

import (
	"bytes"
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

// TestReplaced: nothing is reported as done that went to a file, or a log, that has no name any more, and no
// message is given out of it.
func TestReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"moved":   func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) },
		"restored": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path+".backup", data, 0o600))
			must(t, os.Rename(path+".backup", path))
		},
		"log removed": func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"overwritten": func(t *testing.T, path string) {
			older, err := os.ReadFile(path)
			must(t, err)
			grow(t, path)
			must(t, os.WriteFile(path, older, 0))
		},
		"truncated":     func(t *testing.T, path string) { must(t, os.Truncate(path, 4096)) },
		"emptied":       func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"log truncated": func(t *testing.T, path string) { must(t, os.Truncate(path+"-wal", 4096)) },
		"log overwritten": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"-wal", make([]byte, 1<<20), 0))
		},
		"shared memory removed": func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pawl.db")
			s := open(t, Config{Path: path})
			grow(t, path)
			ctx := t.Context()
			m := pawl.Message{Topic: "t", Body: []byte("body")}
			_, err := s.Append(ctx, store.NewBatch(m, m))
			must(t, err)
			wants := []store.Want{{Topic: "t", Limit: 1}}
			ds, err := s.Claim(ctx, wants, store.Lease{For: time.Minute, Owner: "w"})
			must(t, err)

			replace(t, path)
			ack := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
			_, err = s.Settle(ctx, store.NewBatch(ack))
			if !errors.Is(err, ErrReplaced) || !errors.Is(err, store.ErrLost) {
				t.Errorf("settle: %v", err)
			}
			if _, err := s.Append(ctx, store.NewBatch(m)); !errors.Is(err, ErrReplaced) {
				t.Errorf("append: %v", err)
			}
			more, err := s.Claim(ctx, wants, store.Lease{For: time.Minute, Owner: "w"})
			if !errors.Is(err, ErrReplaced) {
				t.Errorf("claim: %d messages, %v", len(more), err)
			}
			there, _ := os.ReadFile(path)
			must(t, s.Close())
			if now, _ := os.ReadFile(path); !bytes.Equal(now, there) {
				t.Error("what was closed has written into the file that is there now")
			}
		})
	}
}

// grow appends something and carries all of it from the log to the file.
func grow(t *testing.T, path string) {
	t.Helper()
	s := open(t, Config{Path: path})
	_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "other", Body: make([]byte, 1<<20)}))
	must(t, err)
	must(t, s.writer.conn.script("PRAGMA wal_checkpoint(PASSIVE)"))
}

// TestCutBetweenWrites: a log that was cut is noticed before the next write, whose frames would make it as long again
// and hide that those before them are gone.
func TestCutBetweenWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	m := pawl.Message{Topic: "t", Body: []byte("body")}
	_, err := s.Append(t.Context(), store.NewBatch(m))
	must(t, err)
	must(t, os.Truncate(path+"-wal", 32)) // its header
	if _, err := s.Append(t.Context(), store.NewBatch(m)); !errors.Is(err, ErrReplaced) {
		t.Errorf("append: %v", err)
	}
}

// TestReplacedWhileIdle: a worker with nothing to do notices it too, after a second.
func TestReplacedWhileIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	must(t, os.Remove(path))
	s.files.looked.Add(-int64(lookEvery))
	_, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute, Owner: "w"})
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("claim: %v", err)
	}
}

// TestReplacedBehindALink: the log is beside the file, not beside the symbolic link by which it was opened; and a
// link that leads elsewhere is another file.
func TestReplacedBehindALink(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path, link string){
		"log removed": func(t *testing.T, path, _ string) { must(t, os.Remove(path+"-wal")) },
		"link moved":  func(t *testing.T, _, link string) { must(t, os.Rename(link, link+".old")) },
	} {
		t.Run(name, func(t *testing.T) {
			path, link := filepath.Join(t.TempDir(), "pawl.db"), filepath.Join(t.TempDir(), "link.db")
			must(t, os.Symlink(path, link))
			s := open(t, Config{Path: link})
			replace(t, path, link)
			_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
			if !errors.Is(err, ErrReplaced) {
				t.Errorf("append: %v", err)
			}
		})
	}
}

// TestNotReplaced: what SQLite itself does to a file is no replacement, nor is a process that changes its folder.
func TestNotReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	s := open(t, Config{Path: "pawl.db"})
	path, err := filepath.Abs("pawl.db")
	must(t, err)
	t.Chdir(t.TempDir())
	db, err := sql.Open("sqlite", dsn(path, "mode=rw&_busy_timeout=5000"))
	must(t, err)
	defer db.Close()
	wants, lease := []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute, Owner: "w"}
	for range 3 {
		for range 6 {
			_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", Body: make([]byte, 1<<20)}))
			must(t, err)
		}
		must(t, s.files.check())
		for range 6 {
			ds, err := s.Claim(t.Context(), wants, lease)
			must(t, err)
			ack := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
			_, err = s.Settle(t.Context(), store.NewBatch(ack))
			must(t, err)
		}
		for _, statement := range []string{"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "CREATE TABLE IF NOT EXISTS m (x)"} {
			_, err := db.ExecContext(t.Context(), statement)
			must(t, err)
			must(t, s.files.check())
		}
	}
	_, err = s.Stats(t.Context(), "t")
	must(t, err)
}

// TestFileWithTwoNames: a file that is open by one name is not opened by another one, which has a log of its own: what
// was stored by one of them was lost. A link that nobody uses is no harm.
func TestFileWithTwoNames(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.db"), filepath.Join(folder, "b.db")
	p := start(t, "listener", a)
	<-p.facts // it has the file
	must(t, os.Link(a, b))
	refused := func(name string) {
		t.Helper()
		s, err := Open(t.Context(), Config{Path: name})
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "hard link") {
			if err == nil {
				_ = s.Close()
			}
			t.Errorf("%s: %v", name, err)
		}
	}
	refused(b)
	s := open(t, Config{Path: a}) // the same name is no other one
	refused(b)
	must(t, s.Close())
	p.stop(t)
	s = open(t, Config{Path: b})
	refused(a)
	must(t, s.Close())
}

// TestFileThatIsMounted: a file that is mounted without its folder has no log and no memory in common with those who
// open it elsewhere.
func TestFileThatIsMounted(t *testing.T) {
	const mounts = `25 1 8:1 / / rw - ext4 /dev/sda1 rw
36 25 8:1 /data/pawl.db /srv/my\040data/pawl.db rw,relatime shared:1 - ext4 /dev/sda1 rw
`
	for path, want := range map[string]bool{"/srv/my data/pawl.db": true, "/srv/my data": false, "/srv/pawl.db": false} {
		if is := isMount(mounts, path); is != want {
			t.Errorf("%s is a mount: %v", path, is)
		}
	}
}
