package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestFullFile: SQLite may not make the file any larger.
func TestFullFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	limit := func(pages int) error { return s.writer.conn.script(fmt.Sprintf("PRAGMA max_page_count = %d", pages)) }
	must(t, limit(200))
	if err := fillUp(t.Context(), s, func() error { return limit(1 << 30) }); err != nil {
		t.Fatal(err)
	}
	intact(t, path)
}

// TestOneFailureSparesTheOthers: of calls that share a transaction, those that
// find room succeed although one does not.
func TestOneFailureSparesTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	must(t, s.writer.conn.script("PRAGMA max_page_count = 150"))
	release := stalled(t, path)
	results := make([]error, 9)
	wg := gather(t, s, len(results), func(i int) {
		size := 100
		if i == 4 {
			size = 1 << 20
		}
		_, results[i] = s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t", Body: make([]byte, size)}))
	})
	release()
	wg.Wait()
	for i, err := range results {
		if i == 4 {
			says(t, err, store.ErrFull, "room")
		} else if err != nil {
			t.Errorf("call %d, which has room: %v", i, err)
		}
	}
	if n := burn(t, s, "t", 100); n != 8 {
		t.Errorf("%d messages; want 8", n)
	}
	intact(t, path)
}

// until waits for something that happens by itself.
func until(t *testing.T, what func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// fillUp appends until there is no room, has room made, and finds everything.
func fillUp(ctx context.Context, s *Store, makeRoom func() error) error {
	stored := map[string]bool{}
	put := func(n int) error {
		msgs := make([]pawl.Message, n)
		for i := range msgs {
			msgs[i] = pawl.Message{Topic: "full", Body: make([]byte, 1000)}
		}
		receipts, err := s.Append(ctx, store.NewBatch(msgs...))
		for _, r := range receipts {
			stored[r.ID] = true
		}
		return err
	}
	var full error
	for full == nil {
		if full = put(50); len(stored) > 1<<20 {
			return errors.New("there is no end to the room")
		}
	}
	if e, ok := errors.AsType[*store.Error](full); !ok || !errors.Is(full, store.ErrFull) || e.Hint == "" {
		return fmt.Errorf("no room is reported as %T: %w", full, full)
	}
	if _, err := s.Stats(ctx); err != nil {
		return fmt.Errorf("look at a full store: %w", err)
	}
	if err := makeRoom(); err != nil {
		return err
	}
	if err := put(50); err != nil {
		return fmt.Errorf("append when there is room again: %w", err)
	}
	for {
		ds, err := s.Claim(ctx, []store.Want{{Topic: "full", Limit: 1000}}, store.Lease{For: time.Minute})
		if err != nil {
			return err
		}
		if len(ds) == 0 {
			break
		}
		var items []store.Settlement
		for i := range ds {
			if !stored[ds[i].ID] {
				return fmt.Errorf("message %s was refused, and is there", ds[i].ID)
			}
			delete(stored, ds[i].ID)
			items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
		}
		if refused, err := s.Settle(ctx, store.NewBatch(items...)); err != nil || len(refused) > 0 {
			return fmt.Errorf("settle: %v, %w", refused, err)
		}
	}
	if len(stored) > 0 {
		return fmt.Errorf("%d messages were lost", len(stored))
	}
	return nil
}
