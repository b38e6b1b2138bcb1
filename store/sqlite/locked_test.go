package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Whoever opens a file, or looks, does not wait for a transaction of another
// process; whoever writes does, is told so, and can give up.
func TestAnotherProcessWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	first, err := Open(t.Context(), Config{Path: path})
	must(t, err)
	must(t, first.Close())
	db := application(t, path)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	began := time.Now()
	var told atomic.Int32
	s, err := Open(t.Context(), Config{Path: path, Waiting: func() { told.Add(1) }})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Stats(t.Context())
	must(t, err)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("opening and looking took %v", took)
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Append(brief, store.NewBatch(pawl.Message{Topic: "t"}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that gives up: %v", err)
	}
	appended := make(chan error)
	go func() {
		_, err := s.Append(context.Background(), store.NewBatch(pawl.Message{Topic: "t"}))
		appended <- err
	}()
	time.Sleep(1500 * time.Millisecond)
	must(t, tx.Commit())
	must(t, <-appended)
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times that it waits; want once", n)
	}
}

// Who opens a new file has to write, and may give up waiting for that.
func TestGiveUpOpening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	db, err := sql.Open("sqlite", dsn(path, "mode=rwc&_txlock=immediate"))
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL")
	must(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s, err := Open(brief, Config{Path: path})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it gave up, and the error is %v", err)
	}
}

// Who gives up a claim may use its wants again at once, though the writer has just
// begun to look. The race detector sees to it.
func TestGivenUpClaimReadsNothing(t *testing.T) {
	var armed atomic.Bool
	looks, goOn := make(chan struct{}), make(chan struct{})
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db"), Now: func() time.Time {
		if armed.CompareAndSwap(true, false) {
			close(looks)
			<-goOn
		}
		return time.Now()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	wants, terms := []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute}
	armed.Store(true)
	given := make(chan error)
	go func() { _, err := s.Claim(ctx, wants, terms); given <- err }()
	<-looks
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("it gave up, and the error is %v", err)
	}
	close(goOn)
	wants[0] = store.Want{Topic: "other", Limit: 2}
	_, err := s.Claim(t.Context(), wants, terms) // the writer has had its look
	must(t, err)
}
