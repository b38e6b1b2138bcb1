package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestWhatIsDueIsInFront: of more delayed messages than a transaction sees to, each
// is in its lane in front of what comes later, whichever way that comes.
func TestWhatIsDueIsInFront(t *testing.T) {
	last := []byte("0")
	late := pawl.Message{ID: "late", Topic: "t", Key: last}
	for name, do := range map[string]func(*testing.T, *Store){
		"append": func(t *testing.T, s *Store) {
			_, err := s.Append(t.Context(), store.NewBatch(late))
			must(t, err)
		},
		"in a transaction": func(t *testing.T, s *Store) {
			inTx(t, s, s.cfg.Path, func(do func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool {
				_, err := do(store.NewBatch(late))
				must(t, err)
				return true
			})
		},
		"emit": func(t *testing.T, s *Store) {
			task, emits := claimed(t, s, "tasks", 1)[0], late
			emits.ID = ""
			item := store.Settlement{Token: task.Token, ID: task.ID, Verdict: store.Ack, Emit: []pawl.Message{emits}}
			refused, err := s.Settle(t.Context(), store.NewBatch(item))
			must(t, err)
			if len(refused) > 0 {
				t.Fatal(refused)
			}
		},
		"replay": func(t *testing.T, s *Store) {
			refused, err := s.Replay(t.Context(), "", "dead")
			must(t, err)
			if len(refused) > 0 {
				t.Fatal(refused)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Int64
			s := open(t, Config{
				Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: Normal,
				Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			})
			importOne(t, s, pawl.Message{ID: "dead", Topic: "t", Key: last})
			many := 1010
			if name == "emit" {
				many = 2010 // the claim sees to 1000
			}
			putOffMany(t, s, many)
			_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "tasks"}))
			must(t, err)
			ahead.Store(int64(2 * time.Hour))
			do(t, s)
			got := make([]string, 0, 2)
			for ds := claimed(t, s, "t", 5000); len(ds) > 0; ds = claimed(t, s, "t", 5000) {
				var acks []store.Settlement
				for _, d := range ds {
					if string(d.Key) == string(last) {
						got = append(got, d.ID)
					}
					acks = append(acks, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
				}
				_, err := s.Settle(t.Context(), store.NewBatch(acks...))
				must(t, err)
			}
			if len(got) != 2 || got[0] != "old0" {
				t.Errorf("the last lane gave %q", got)
			}
		})
	}
}

// putOffMany appends messages that are due in an hour, each with a key of its own,
// from n-1 to 0.
func putOffMany(t *testing.T, s *Store, n int) {
	t.Helper()
	var msgs []pawl.Message
	for i := range n {
		i = n - 1 - i
		msgs = append(msgs, pawl.Message{ID: fmt.Sprint("old", i), Topic: "t", Key: fmt.Append(nil, i),
			Delay: time.Hour})
	}
	_, err := s.Append(t.Context(), store.NewBatch(msgs...))
	must(t, err)
}

func claimed(t *testing.T, s *Store, topic string, n int) []pawl.Delivery {
	t.Helper()
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: n}}, store.Lease{For: time.Hour, Owner: "t"})
	must(t, err)
	return ds
}

func importOne(t *testing.T, s *Store, m pawl.Message) {
	t.Helper()
	_, err := s.Append(t.Context(), store.NewBatch(m))
	must(t, err)
	d := claimed(t, s, m.Topic, 1)[0]
	_, err = s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Dead}))
	must(t, err)
}

// TestNobodyWaitsForAllThatIsDue: while an append waits for very much that is due,
// others have their turn in between, and who gives up waiting is let go at once.
func TestNobodyWaitsForAllThatIsDue(t *testing.T) {
	var ahead atomic.Int64
	var gated atomic.Bool
	asks, turns := make(chan struct{}), make(chan struct{}) // a transaction each, while gated
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: Normal, Now: func() time.Time {
		if gated.Load() {
			asks <- struct{}{}
			<-turns
		}
		return time.Now().Add(time.Duration(ahead.Load()))
	}})
	putOffMany(t, s, 2010)
	_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "tasks"}))
	must(t, err)
	ahead.Store(int64(time.Hour - time.Minute))
	task := claimed(t, s, "tasks", 1)[0]
	ahead.Store(int64(time.Hour + time.Minute))
	gated.Store(true)

	appended, settled, gaveUp := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	put := func(ctx context.Context, done chan<- error) {
		_, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "t"}))
		done <- err
	}
	go put(t.Context(), appended)
	<-asks // the writer has it, and nothing else
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go put(ctx, gaveUp)
	go func() {
		_, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: task.Token, ID: task.ID,
			Verdict: store.Ack}))
		settled <- err
	}()
	until(t, func() bool { return len(s.calls) == 2 })
	turns <- struct{}{} // 1000 of 2010
	<-asks
	turns <- struct{}{} // 2000, and the settlement
	must(t, <-settled)
	<-asks
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up was told %v", err)
	}
	if len(appended) > 0 {
		t.Error("the append did not wait for what is due")
	}
	gated.Store(false)
	turns <- struct{}{}
	must(t, <-appended)
}

// TestSettlementsComeBeforeWhatIsDue: a settlement that shares a transaction with an
// append loses its lease for no want of a turn.
func TestSettlementsComeBeforeWhatIsDue(t *testing.T) {
	var ahead atomic.Int64
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
	must(t, err)
	d := claimed(t, s, "t", 1)[0]
	ahead.Store(int64(2 * time.Hour))
	release := stalled(t, path)
	wg := gather(t, s, 2, func(i int) {
		if i == 0 {
			_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
			if err != nil {
				t.Error(err)
			}
			return
		}
		refused, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: d.Token, ID: d.ID,
			Verdict: store.Ack}))
		if err != nil || len(refused) > 0 {
			t.Error(refused, err)
		}
	})
	release()
	wg.Wait()
}
