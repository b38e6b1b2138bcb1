package sqlite

import (
	"errors"
	"os"
	"path/filepath"
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
		"log removed":           func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
		"shared memory removed": func(t *testing.T, path string) { must(t, os.Remove(path+"-shm")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pawl.db")
			s := open(t, Config{Path: path})
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
		})
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
