package operate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// slow is a store of which every call takes a while.
type slow struct {
	*morgue
	state, replay time.Duration
}

func (s *slow) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	time.Sleep(s.state)
	return s.morgue.PutState(ctx, key, value, version, writer)
}

func (s *slow) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	time.Sleep(s.replay)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.morgue.Replay(ctx, topic, ids...)
}

func givenIDs(n int) (sel Selection) {
	for i := range n {
		sel.IDs = append(sel.IDs, fmt.Sprintf("%05d", i))
	}
	return sel
}

// TestGivenIDsOutliveAWait: an operation that ends while it waits for its turn
// goes on with the very ids that it waited for.
func TestGivenIDsOutliveAWait(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *morgue, string, context.CancelFunc){
		"pause": func(t *testing.T, m *morgue, id string, _ context.CancelFunc) {
			if _, err := m.operations(t).Ask(t.Context(), id, Paused, "other"); err != nil {
				t.Error(err)
			}
		},
		"kill":      func(_ *testing.T, m *morgue, _ string, _ context.CancelFunc) { m.kill(true) },
		"interrupt": func(_ *testing.T, _ *morgue, _ string, stop context.CancelFunc) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMorgue(t, 6)
				o := m.plan(t, givenIDs(6))
				id := o.ID
				o.Rate = 0.2
				for range 3 { // at the second and third time within the first wait
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- m.run(t, ctx, o) }()
					time.Sleep(3 * time.Second)
					end(t, m, id, stop)
					if err := <-ended; err == nil {
						t.Fatal("it was not stopped")
					}
					stop()
					m.kill(false)
					time.Sleep(2 * deadAfter)
					var err error
					if o, err = m.operations(t).Get(t.Context(), o.ID); err != nil {
						t.Fatal(err)
					}
				}
				if err := m.run(t, t.Context(), o); err != nil {
					t.Fatal(err)
				}
				m.wantOnce(t, o, 6)
			})
		})
	}
}

// TestGivenIDsThatWereNotDoneOutliveAWait: the same of ids that a crash left.
func TestGivenIDsThatWereNotDoneOutliveAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 20)
		o := m.plan(t, givenIDs(20))
		o.Rate, m.dieAt = 20, 4 // take, its audit, the intent; the replay has no effect
		if err := m.run(t, t.Context(), o); !errors.Is(err, errKilled) || len(m.replays) > 0 {
			t.Fatalf("%v; replayed %v", err, m.replays)
		}
		for _, wait := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
			m.dead, m.dieAt = false, 0
			time.Sleep(2 * deadAfter)
			o, err := m.operations(t).Get(t.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), wait)
			if err := m.run(t, ctx, o); !errors.Is(err, ErrPaused) || len(m.replays) > 0 {
				t.Fatalf("%v; replayed %v", err, m.replays)
			}
			stop()
		}
		o, err := m.resume(t, o)
		if err != nil {
			t.Fatal(err)
		}
		m.wantOnce(t, o, 20)
	})
}

// TestOperationLivesWhileTheStoreIsSlow: what takes long, an edit or a replay, is
// not taken for dead: nobody else goes on with it, and who cancels it waits.
func TestOperationLivesWhileTheStoreIsSlow(t *testing.T) {
	for name, c := range map[string]struct {
		slow
		patch string
	}{"edit": {slow{state: 100 * time.Millisecond}, ".n += 1"}, "replay": {slow{replay: 3 * deadAfter}, ""}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMorgue(t, 1000)
				o := m.plan(t, Selection{})
				o.Edit = c.patch
				ops := m.operations(t)
				s := &slow{m, c.state, c.replay}
				ops.State, ops.Letters = s, s
				ended := make(chan error, 1)
				go func() { ended <- (&Runner{Operations: ops, Who: "one"}).Run(t.Context(), o) }()
				time.Sleep(deadAfter + 2*time.Second)
				second, err := ops.Get(t.Context(), o.ID)
				if err != nil {
					t.Fatal(err)
				}
				if err := (&Runner{Operations: ops, Who: "two"}).Run(t.Context(), second); !errors.Is(err,
					store.ErrConflict) {
					t.Fatalf("a second one: %v", err)
				}
				cancelled, err := ops.Ask(t.Context(), o.ID, Cancelled, "two")
				if err != nil || cancelled.Status != Cancelled {
					t.Fatalf("%+v, %v", cancelled, err)
				}
				done := m.replayed()
				if err := <-ended; !errors.Is(err, ErrCancelled) {
					t.Fatalf("the runner ended with %v", err)
				}
				if m.replayed() != done || cancelled.Done != int64(done) || done > chunk {
					t.Fatalf("%d replayed when it was cancelled, %d on record, %d in the end", done, cancelled.Done,
						m.replayed())
				}
			})
		})
	}
}

// TestOperationThatWasTakenDoesNotReplay: whoever was silent too long looks, after
// the edit, whether the operation is still its own.
func TestOperationThatWasTakenDoesNotReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 10)
		o := m.plan(t, Selection{})
		o.Edit = ".n += 1"
		ops := m.meddled(t, o, func(now *Operation) { now.Runner = "another" })
		err := (&Runner{Operations: ops, Who: "one"}).Run(t.Context(), o)
		if !errors.Is(err, store.ErrConflict) || len(m.replays) > 0 {
			t.Fatalf("%v; replayed %v", err, m.replays)
		}
	})
}

// What was edited when somebody asked for an end is replayed before it: the advice is to
// plan a new one for the rest, which would edit it once more.
func TestCancelledOperationLeavesNothingEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 200)
		o := m.plan(t, Selection{})
		o.Edit = ".n += 1000"
		ops := m.meddled(t, o, func(now *Operation) { now.Asked = Cancelled })
		if err := (&Runner{Operations: ops, Who: "one"}).Run(t.Context(), o); !errors.Is(err, ErrCancelled) {
			t.Fatal(err)
		}
		if n := m.replayed(); n == 0 || n == 200 {
			t.Fatalf("the test shows nothing: %d of 200 were replayed", n)
		}
		for r, err := range m.Dead(t.Context(), store.DeadFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Headers[HeaderEdit] != "" {
				t.Errorf("%s is edited and not replayed", r.ID)
			}
		}
	})
}

// refusing is a store that takes back no letter while it is closed.
type refusing struct {
	*morgue
	closed bool
}

func (s *refusing) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if !s.closed {
		return s.morgue.Replay(ctx, topic, ids...)
	}
	refused := map[string]error{}
	for _, id := range ids {
		refused[id] = errors.New("its unique key is taken")
	}
	return refused, nil
}

// A letter that was edited and could not be replayed is not edited once more by the
// same replay, planned anew; one that has died again since is.
func TestSameEditIsMadeOnceForADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 1)
		letters := &refusing{morgue: m, closed: true}
		again := func() {
			o := m.plan(t, Selection{})
			o.Edit = ".n += 1000"
			ops := m.operations(t)
			ops.Letters = letters
			_ = (&Runner{Operations: ops, Who: "one"}).Run(t.Context(), o)
		}
		body := func() string {
			r, err := m.Get(t.Context(), "00000")
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Body)
		}
		again()
		again()
		if got := body(); got != `{"n":1000,"price":1.10}` {
			t.Errorf("after two that were refused it is %s", got)
		}
		letters.closed = false
		again()
		ds, err := m.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute, Owner: "w"})
		if err != nil || len(ds) != 1 || string(ds[0].Body) != `{"n":1000,"price":1.10}` {
			t.Fatalf("%+v, %v", ds, err)
		}
		dead := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Dead,
			Failure: store.Failure{Kind: "K", Error: "again"}}
		time.Sleep(time.Second)
		if refused, err := m.Settle(t.Context(), store.NewBatch(dead)); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		letters.closed = true
		again()
		if got := body(); got != `{"n":2000,"price":1.10}` {
			t.Errorf("after another death it is %s", got)
		}
	})
}

// taking is a store in which another process changes the operation during an edit.
type taking struct {
	*morgue
	take func()
}

// meddled are the operations of a process, one of which another one changes so during
// every edit.
func (m *morgue) meddled(t *testing.T, o *Operation, change func(*Operation)) *Operations {
	ops := m.operations(t)
	ops.Letters = &taking{m, func() {
		now, err := m.operations(t).Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		change(now)
		if _, err := m.operations(t).put(t.Context(), now, "another"); err != nil {
			t.Fatal(err)
		}
	}}
	return ops
}

func (s *taking) Edit(ctx context.Context, as ...store.Edit) (map[string]error, error) {
	s.take()
	return s.morgue.Edit(ctx, as...)
}
