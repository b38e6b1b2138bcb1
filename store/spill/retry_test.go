package spill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// sick makes messages of some keys fail, all others are taken.
func sick(keys ...string) func(int, []pawl.Message) fate {
	return func(int, []pawl.Message) fate {
		return fate{each: func(m pawl.Message) error {
			if slices.Contains(keys, string(m.Key)) {
				return failed()
			}
			return nil
		}}
	}
}

// TestRetriesEnd: a row that fails while others are taken is a dead letter after the
// last retry, with its history; replayed rows come back in their order.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.set(sick("a"))
		s := open(t, primary, fallback, Config{})
		begun := time.Now()
		for n := range 3 {
			send(t, s, msg("a", n))
		}
		for n := 0; len(deadRows(t, fallback)) < 3; n++ {
			send(t, s, msg("healthy", n)) // the primary store is there
			time.Sleep(5 * time.Second)
			if time.Since(begun) > 100*time.Hour {
				t.Fatalf("only %d rows are dead after %v", len(deadRows(t, fallback)), time.Since(begun))
			}
		}
		dead := deadRows(t, fallback)
		for n, r := range dead {
			if r.ID != fmt.Sprint("a-", n) || len(r.History) != 10 || r.Kind != KindSpill ||
				!strings.Contains(r.Reason, "no broker answers") {
				t.Fatalf("dead letter %d: %s, %d attempts, %s: %s", n, r.ID, len(r.History), r.Kind, r.Reason)
			}
			first, second := r.History[0].NextAt.Sub(r.History[0].EndedAt),
				r.History[1].NextAt.Sub(r.History[1].EndedAt)
			if first < 48*time.Second || first > 72*time.Second || second < 96*time.Second || second > 144*time.Second {
				t.Errorf("retries after %v and %v", first, second)
			}
		}
		quiet(t, s, time.Minute) // a dead letter frees its key
		if _, st := stats(t, s); st.Buried != 3 || st.Dead != 3 || st.CompensationsFailed != 30 {
			t.Fatalf("figures %+v", st)
		}
		primary.set(nil)
		if refused, err := fallback.Replay(t.Context(), "", dead[0].ID, dead[1].ID, dead[2].ID); err != nil ||
			len(refused) > 0 {
			t.Fatal(refused, err)
		}
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 3)
	})
}

// TestUnansweredRowsWaitLittle: a row of which it is not known whether it was stored
// may have been slow only. It is tried soon, twice, and counts as any failure does.
func TestUnansweredRowsWaitLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				if string(m.Key) == "a" {
					return unsure(false)
				}
				return nil
			}}
		})
		s := open(t, primary, fallback, Config{})
		send(t, s, msg("a", 0))
		for n := 0; len(deadRows(t, fallback)) == 0; n++ {
			send(t, s, msg("healthy", n))
			time.Sleep(time.Second)
		}
		history := deadRows(t, fallback)[0].History
		if len(history) != 10 {
			t.Fatalf("%d attempts", len(history))
		}
		for i, want := range []time.Duration{time.Second, 15 * time.Second, time.Minute, 2 * time.Minute} {
			if got := history[i].NextAt.Sub(history[i].EndedAt); got < want*4/5 || got > want*6/5 {
				t.Errorf("try %d follows after %v, want about %v", i+2, got, want)
			}
		}
	})
}

// TestPoisonBlocksNobody: a key whose rows fail, whichever way, does not keep others
// waiting, and they are not blamed for it.
func TestPoisonBlocksNobody(t *testing.T) {
	for name, poisoned := range map[string]func(items []pawl.Message) fate{
		"by itself": func(items []pawl.Message) fate { return sick("poison")(0, items) },
		"with all that is sent with it": func(items []pawl.Message) fate {
			return fate{down: slices.ContainsFunc(items, func(m pawl.Message) bool {
				return string(m.Key) == "poison"
			})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), memory.New(memory.Config{})
				primary.setDown(true)
				s := open(t, primary, fallback, Config{})
				for k := range 100 {
					if k == 50 {
						send(t, s, msg("poison", 0), msg("poison", 1))
					}
					send(t, s, msg(fmt.Sprint("key", k), 0), msg(fmt.Sprint("key", k), 1))
				}
				primary.set(func(_ int, items []pawl.Message) fate { return poisoned(items) })
				for n := range 10 {
					send(t, s, msg("", n)) // traffic, so that it is known to be there
					time.Sleep(3 * time.Second)
				}
				for k := range 100 {
					primary.inOrder(t, fmt.Sprint("key", k), 2)
				}
				send(t, s, msg("key0", 2))
				primary.inOrder(t, "key0", 3)
				if got := primary.firsts("poison"); len(got) != 0 {
					t.Fatal(got)
				}
				for n := 10; len(deadRows(t, fallback)) < 2; n++ {
					send(t, s, msg("", n))
					time.Sleep(time.Minute)
				}
				for _, r := range deadRows(t, fallback) {
					if string(r.Key) != "poison" {
						t.Errorf("row %s died: %s", r.ID, r.Reason)
					}
				}
			})
		})
	}
}

// TestReplayLatches: from the moment on at which a replayed row is found, new
// messages of its key go behind it.
func TestReplayLatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.setDown(true)
		s := open(t, primary, fallback, Config{})
		send(t, s, msg("a", 0))
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(pawl.Message) error { return store.ErrTooLarge }}
		})
		quiet(t, s, time.Minute)
		primary.set(slowly("0"))
		if _, err := fallback.Replay(t.Context(), "", "a-0"); err != nil {
			t.Fatal(err)
		}
		for {
			r, err := fallback.Get(t.Context(), "a-0")
			if err != nil || r.State == store.Leased {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait() // who has claimed it knows that it has
		send(t, s, msg("a", 1))
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 2)
	})
}

// TestPoisonAlone: a key whose rows fail, while nothing else is sent, does not send
// others aside.
func TestPoisonAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(sick("a"))
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		send(t, s, msg("b", 0), msg("a", 0))
		for n := 1; n < 20; n++ {
			time.Sleep(time.Duration(n) * time.Second)
			send(t, s, msg("b", n))
			primary.inOrder(t, "b", n+1)
		}
	})
}

// TestRestart: after a restart the keys with rows are latched, where no other
// process could know of them.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), &shared{Store: memory.New(memory.Config{})}
		primary.setDown(true)
		s := open(t, primary, kept, Config{})
		send(t, s, msg("a", 0), msg("b", 0), msg("", 0))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		primary.set(nil)
		fallback := &stingy{Store: kept}
		s = open(t, primary, fallback, Config{})
		send(t, s, msg("a", 1), msg("c", 1))
		if got := primary.firsts("c"); len(got) != 1 {
			t.Fatal("a key without rows had to wait")
		}
		fallback.give(-1)
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 2)
	})
}

// TestRefusedRowsAreDead: what the primary store will not take whatever happens is
// not tried again.
func TestRefusedRowsAreDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.setDown(true)
		s := open(t, primary, fallback, Config{})
		send(t, s, msg("a", 0))
		send(t, s, msg("b", 0), msg("b", 1))
		if _, err := fallback.Append(t.Context(), store.NewBatch(pawl.Message{ID: "alien", Topic: "spill.orders",
			Key: []byte("c")})); err != nil {
			t.Fatal(err)
		}
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				if string(m.Key) == "a" {
					return store.ErrTooLarge
				}
				return nil
			}}
		})
		quiet(t, s, time.Minute)
		primary.inOrder(t, "b", 2)
		var ids []string
		for _, r := range deadRows(t, fallback) {
			ids = append(ids, r.ID)
			if len(r.History) != 1 {
				t.Errorf("%s was tried %d times", r.ID, len(r.History))
			}
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"a-0", "alien"}) {
			t.Fatalf("dead: %v", ids)
		}
	})
}

// TestCancelledRowsFreeTheirKey: a row that an operator takes out does not latch its
// key for ever.
func TestCancelledRowsFreeTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.set(sick("a"))
		s := open(t, primary, fallback, Config{})
		send(t, s, msg("b", 0), msg("a", 0))
		time.Sleep(1500 * time.Millisecond) // the compensator looks every second
		if refused, err := fallback.Cancel(t.Context(), "a-0"); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		primary.set(nil)
		quiet(t, s, 10*time.Second)
		send(t, s, msg("a", 1))
		if got := primary.firsts("a"); !slices.Equal(got, []string{"1"}) {
			t.Fatal(got)
		}
	})
}

// TestCancelledTailKeepsTheLatch: a row that an operator takes out from behind others
// does not let new messages of their key pass them.
func TestCancelledTailKeepsTheLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), &stingy{Store: memory.New(memory.Config{})} // nothing comes back yet
		primary.set(sick("a"))
		s := open(t, primary, fallback, Config{})
		send(t, s, msg("b", 0), msg("a", 0))
		send(t, s, msg("a", 9))
		inspector, _ := store.As[store.Inspector](fallback, store.CanLookup)
		if refused, err := inspector.Cancel(t.Context(), "a-9"); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		primary.set(nil)
		time.Sleep(time.Minute) // latches are verified
		send(t, s, msg("b", 1), msg("a", 1))
		primary.inOrder(t, "b", 2)
		primary.inOrder(t, "a", 0)
		fallback.give(-1)
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 2)
	})
}

// TestCloseIsBounded: Close does not wait for a primary store that hangs, and what
// waits is there afterwards.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		kept := &shared{Store: memory.New(memory.Config{})}
		primary.setDown(true)
		s := open(t, primary, kept, Config{})
		for n := range 10 {
			send(t, s, msg("a", n))
		}
		primary.set(func(int, []pawl.Message) fate { return fate{delay: time.Hour} })
		time.Sleep(20 * time.Second) // the compensator is on its way
		begun := time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Fatalf("Close took %v", took)
		}
		if _, err := s.Append(t.Context(), store.NewBatch(msg("a", 10))); !errors.Is(err, store.ErrClosed) {
			t.Fatal(err)
		}
		again := newLog()
		s = open(t, again, kept, Config{})
		quiet(t, s, 5*time.Minute)
		again.inOrder(t, "a", 10)
	})
}

// TestNewAsksForWhatItNeeds: a fallback store that cannot keep rows is refused, and
// so is what no configuration can be.
func TestNewAsksForWhatItNeeds(t *testing.T) {
	plain := newLog()
	plain.can = store.Capabilities{}
	if _, err := New(newLog(), plain, Config{}); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
	for _, cfg := range []Config{
		{PrimaryTimeout: -1}, {PrimaryTimeout: 48 * time.Hour},
	} {
		if _, err := New(newLog(), memory.New(memory.Config{}), cfg); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestKeysWaitForTheirRows: before the rows that are there are known, a message with
// a key waits; one without does not.
func TestKeysWaitForTheirRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), &shared{Store: memory.New(memory.Config{})}
		primary.setDown(true)
		s := open(t, primary, kept, Config{})
		send(t, s, msg("a", 0))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		primary.setDown(false)
		kept.blind.Store(true)
		s = open(t, primary, kept, Config{})
		send(t, s, msg("", 0))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := s.Append(ctx, store.NewBatch(msg("b", 0))); !errors.Is(err, store.ErrUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, func() { kept.blind.Store(false) })
		send(t, s, msg("a", 1))
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 2)
	})
}

// slowly takes its time for messages with that body.
func slowly(body string) func(int, []pawl.Message) fate {
	return func(_ int, items []pawl.Message) fate {
		if slices.ContainsFunc(items, func(m pawl.Message) bool { return string(m.Body) == body }) {
			return fate{delay: 5 * time.Second}
		}
		return fate{}
	}
}
