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
