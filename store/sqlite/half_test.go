package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/bound"
)

// brief is a context that ends when it has been looked at so many times.
type brief struct {
	context.Context
	looks int
	done  chan struct{}
}

func briefly(ctx context.Context, looks int) *brief {
	return &brief{Context: ctx, looks: looks, done: make(chan struct{})}
}

func (b *brief) Done() <-chan struct{} {
	if b.looks--; b.looks == 0 {
		close(b.done)
	}
	return b.done
}

func (b *brief) Err() error {
	select {
	case <-b.Done():
		return context.Canceled
	default:
		return nil
	}
}

// kinds are messages of every way into the store.
func kinds(name string, n int) []pawl.Message {
	var all []pawl.Message
	for i := range n {
		m := pawl.Message{ID: fmt.Sprint(name, "-", i), Topic: "t"}
		switch i % 4 {
		case 1:
			m.Key = []byte("k" + strconv.Itoa(i))
		case 2:
			m.Unique = pawl.Unique{Key: m.ID}
		case 3:
			m.Delay = time.Minute
		}
		all = append(all, m)
	}
	return all
}

// TestHalfAnAppendIsNotCommitted: a context that ends while AppendTx is at work,
// anywhere in it, leaves the caller's transaction as it was. Who commits that
// commits the own rows, and no part of the append.
func TestHalfAnAppendIsNotCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path, Synchronous: Normal})
	db := application(t, path)
	_, err := db.Exec("CREATE TABLE own (n INTEGER)")
	must(t, err)
	failed := 0
	for n := 1; n < 120; n += 7 {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.Exec("INSERT INTO own VALUES (?)", n)
		must(t, err)
		name := "m" + strconv.Itoa(n)
		_, err = s.AppendTx(briefly(t.Context(), n), tx, store.NewBatch(kinds(name, 12)...))
		if err != nil {
			failed++
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("after %d looks: %v", n, err)
			}
		}
		must(t, tx.Commit())
		_, got := s.Get(t.Context(), name+"-0")
		if err != nil && !errors.Is(got, store.ErrNotFound) || err == nil && got != nil {
			t.Fatalf("after %d looks: %v; the first message: %v", n, err, got)
		}
		if _, err := s.Append(t.Context(), store.NewBatch(kinds("after"+strconv.Itoa(n), 4)...)); err != nil {
			t.Fatalf("after %d looks an append fails: %v", n, err)
		}
	}
	intact(t, path)
	var own int
	must(t, db.QueryRow("SELECT count(*) FROM own").Scan(&own))
	if own != 17 || failed < 5 {
		t.Errorf("%d rows of the application, %d appends failed", own, failed)
	}
}

// TestHalfAnAppendHeals: a file in which one was committed by half takes appends
// again once it was opened, and all that is in it is found and counted.
func TestHalfAnAppendHeals(t *testing.T) {
	damaged := 0
	for n := 22; n < 60; n += 3 {
		path := filepath.Join(t.TempDir(), "pawl.db")
		s := open(t, Config{Path: path, Synchronous: Normal})
		_, err := s.Append(t.Context(), store.NewBatch(kinds("whole", 8)...))
		must(t, err)
		halfAnAppend(t, path, n)
		must(t, s.Close())
		db := application(t, path)
		var ahead bool
		must(t, db.QueryRow(isAhead).Scan(&ahead))
		must(t, db.Close())
		if !ahead {
			continue
		}
		damaged++
		s = open(t, Config{Path: path, Synchronous: Normal})
		_, err = s.Append(t.Context(), store.NewBatch(kinds("after", 8)...))
		must(t, err)
		intact(t, path)
		stats, err := s.Stats(t.Context(), "t")
		must(t, err)
		var listed int64
		for _, err := range s.List(t.Context(), store.Filter{Topic: "t"}) {
			must(t, err)
			listed++
		}
		if got := stats[0].Waiting + stats[0].Delayed; got != listed || listed <= 16 {
			t.Errorf("after %d looks: %d listed, %d counted", n, listed, got)
		}
	}
	if damaged < 3 {
		t.Errorf("only %d files were damaged", damaged)
	}
}

// halfAnAppend commits what an append had done when its context ended, as versions
// without a savepoint did.
func halfAnAppend(t *testing.T, path string, looks int) {
	t.Helper()
	db := application(t, path)
	defer func() { must(t, db.Close()) }()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	session := newTxSession(t.Context(), tx)
	session.between = briefly(t.Context(), looks)
	batch := store.NewBatch(kinds("half", 12)...)
	admitted, err := store.Admit(batch)
	must(t, err)
	k := &work{db: session, now: time.Now().UnixMicro(), topics: &topicCache{}}
	if k.load() == nil {
		if _, err := k.appendBatch(t.Context(), &bound.Meter{}, batch, admitted); err == nil {
			_ = k.finish()
		}
	}
	session.close()
	must(t, tx.Commit())
}
