package sqlite

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestWhatNeedNotBeKeptIsForgotten: outcomes after two hours, unique keys and
// retained messages when their time is over, the lanes of keys that are gone.
func TestWhatNeedNotBeKeptIsForgotten(t *testing.T) {
	var ahead atomic.Int64
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	db := application(t, path)
	count := func(table string) (n int) {
		t.Helper()
		must(t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
		return n
	}
	retain := time.Hour
	_, err := s.Declare(t.Context(), store.Declaration{Name: "t", Retain: &retain})
	must(t, err)
	const many = 450 // more than is forgotten at once
	for i := range many {
		n := strconv.Itoa(i)
		m := pawl.Message{Topic: "t", Key: []byte(n), Unique: pawl.Unique{Key: n, For: time.Hour}}
		if i == 0 {
			m.Unique.For = pawl.Forever
		}
		_, err := s.Append(t.Context(), store.NewBatch(m))
		must(t, err)
	}
	if n := burn(t, s, "t", many); n != many {
		t.Fatal(n)
	}
	if _, err := db.Exec("UPDATE pawl_state SET seq = seq + ?", keptKeys+1); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{"pawl_batch": many + 1, "pawl_uniq": many, "pawl_msg": many,
		"pawl_acked": many, "pawl_key": many} {
		if n := count(table); n != want {
			t.Errorf("%s has %d rows; want %d", table, n, want)
		}
	}
	ahead.Add(int64(3 * time.Hour))
	left := map[string]int{"pawl_uniq": 1, "pawl_acked": 0, "pawl_msg": 1, "pawl_key": 1, "pawl_batch": 0}
	_, err = s.Append(t.Context(), store.Batch[pawl.Message]{Items: []pawl.Message{{Topic: "t", Key: []byte("stays")}}})
	must(t, err)
	until(t, func() bool {
		must(t, s.Pause(t.Context(), "other", 0, "", "")) // a transaction, as there are always some
		for table, want := range left {
			if count(table) != want {
				return false
			}
		}
		return true
	})
	intact(t, path)
}
