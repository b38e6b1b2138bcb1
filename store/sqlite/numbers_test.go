package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestNumbersGoOn: nothing ends where the numbers of messages and dead letters leave 32 bits, nor before they end.
func TestNumbersGoOn(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "pawl.db")}
	ctx := t.Context()
	for _, bits := range []int{31, 32, 40, 47} {
		s := open(t, c)
		for n := range 6 {
			if n == 1 { // there is a dead letter
				db, err := sql.Open("sqlite", "file:"+c.Path)
				must(t, err)
				last := min(int64(1)<<bits-3, laneBase-20) // laneBase is the end
				_, err = db.ExecContext(ctx, `UPDATE pawl_state SET seq = ?1; UPDATE pawl_dead SET n = ?1
					WHERE n = (SELECT max(n) FROM pawl_dead)`, last)
				must(t, err)
				must(t, db.Close())
				must(t, s.Close())
				s = open(t, c)
			}
			keyed := pawl.Message{Topic: "t", Key: []byte("k")}
			receipts, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "t"}, keyed, keyed))
			must(t, err)
			ds, err := s.Claim(ctx, []store.Want{{Topic: "t", Limit: 5}}, store.Lease{For: time.Minute, Owner: "w"})
			must(t, err)
			if len(ds) != 3 {
				t.Fatalf("%d of 3 deliveries from 2^%d", len(ds), bits)
			}
			var all []store.Settlement
			for i, d := range ds {
				verdict := store.Ack
				if d.Key == nil {
					verdict = store.Dead
				}
				all = append(all, store.Settlement{Token: d.Token, ID: d.ID, Verdict: verdict})
				if rec, err := s.Get(ctx, receipts[i].ID); err != nil || rec.State != store.Leased {
					t.Errorf("%+v, %v", rec, err)
				}
			}
			lost, err := s.Settle(ctx, store.NewBatch(all...))
			must(t, err)
			if len(lost) > 0 {
				t.Fatalf("settle from 2^%d: lost %v", bits, lost)
			}
		}
		must(t, s.Close())
	}
	s := open(t, c)
	dead := 0
	for _, err := range s.Dead(ctx, store.DeadFilter{}) {
		must(t, err)
		dead++
	}
	if dead != 24 {
		t.Errorf("%d of 24 dead letters are listed", dead)
	}
}
