package spill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestEmits: what is emitted to a key with rows goes behind them, if the primary
// store lets emitted messages appear before the ack.
func TestEmits(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		t.Run(fmt.Sprintf("atomic=%t", atomic), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), memory.New(memory.Config{})
				if !atomic {
					primary.can = store.Capabilities{}
				}
				settled := &settles{Store: primary}
				s := open(t, settled, fallback, Config{})
				ack := func() store.Settlement {
					return store.Settlement{ID: "parent", Verdict: store.Ack,
						Emit: []pawl.Message{{Topic: "free"}, {Topic: "orders", Key: []byte("a"), Body: []byte("1")}}}
				}
				if _, err := s.Settle(t.Context(), store.NewBatch(ack())); err != nil || settled.emits != 2 {
					t.Fatalf("%d emits, %v, while nothing is latched", settled.emits, err)
				}
				primary.setDown(true)
				send(t, s, msg("a", 0))
				batch := store.NewBatch(ack())
				if _, err := s.Settle(t.Context(), batch); err != nil || len(batch.Items[0].Emit) != 2 {
					t.Fatal(err, "or the caller's batch was changed")
				}
				if want := map[bool]int{false: 2, true: 4}[atomic]; settled.emits != want {
					t.Fatalf("%d messages were emitted by the primary store; want %d", settled.emits, want)
				}
				if atomic {
					return
				}
				if _, err := fallback.Get(t.Context(), pawl.EmitID("parent", 1)); err != nil {
					t.Fatal(err)
				}
				primary.setDown(false)
				quiet(t, s, time.Minute)
				primary.inOrder(t, "a", 2)
			})
		})
	}
}

// settles counts what is emitted, and notes what is settled.
type settles struct {
	store.Store
	emits int
	ids   []string // of what was settled
	stale string   // the id of a delivery whose lease is lost
}

func (s *settles) Unwrap() store.Store { return s.Store }

func (s *settles) Settle(_ context.Context, batch store.Batch[store.Settlement]) (refused []store.Refusal, err error) {
	for i, st := range batch.Items {
		s.emits += len(st.Emit)
		s.ids = append(s.ids, st.ID)
		if st.ID == s.stale {
			refused = append(refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
		}
	}
	return refused, nil
}

// TestUnfitEmitsAreNotAcked: a delivery is not acked while one of its messages, which
// go behind rows, is nowhere. If that message is to blame its settlement is refused,
// and the others of the call take effect; if the call was, it fails.
func TestUnfitEmitsAreNotAcked(t *testing.T) {
	behind := pawl.Message{Topic: "orders", Key: []byte("a"), Body: []byte("1")}
	big := pawl.Message{Topic: "orders", Key: []byte("free"), Body: []byte("big")}
	late := behind
	late.Delay = time.Hour
	for _, c := range []struct {
		name   string
		emit   []pawl.Message
		why    error // of the big one
		failed error // what Settle says
	}{
		{"the brokers refuse one", []pawl.Message{big, behind}, store.ErrTooLarge, nil},
		{"a row could not come back", []pawl.Message{late}, nil, nil},
		{"a right was lost", []pawl.Message{big, behind}, store.ErrDenied, store.ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary := newLog()
				primary.can = store.Capabilities{} // as a log has them
				settled := &settles{Store: primary, stale: "stale"}
				s := open(t, settled, &stingy{Store: memory.New(memory.Config{})}, Config{}) // the row stays
				primary.setDown(true)
				send(t, s, msg("a", 0))
				primary.set(func(int, []pawl.Message) fate {
					return fate{each: func(m pawl.Message) error {
						if string(m.Body) == "big" {
							return &store.Error{Op: "append", Code: c.why}
						}
						return nil
					}}
				})
				refused, err := s.Settle(t.Context(), store.NewBatch(
					store.Settlement{ID: "good", Verdict: store.Ack, Emit: []pawl.Message{behind}},
					store.Settlement{ID: "unfit", Verdict: store.Ack, Emit: c.emit},
					store.Settlement{ID: "stale", Verdict: store.Ack},
				))
				if c.failed != nil {
					if !errors.Is(err, c.failed) || len(settled.ids) != 0 {
						t.Fatalf("%v, %v, and %v settled", refused, err, settled.ids)
					}
					return
				}
				if err != nil || len(refused) != 2 || refused[0].Index != 1 || refused[1].Index != 2 ||
					!errors.Is(refused[1].Err, pawl.ErrLeaseLost) {
					t.Fatal(refused, err)
				}
				if unfit, ok := errors.AsType[*pawl.InvalidError](refused[0].Err); !ok || unfit.Field != "emit" {
					t.Error(refused[0].Err)
				}
				if !slices.Equal(settled.ids, []string{"good", "stale"}) {
					t.Errorf("settled: %v", settled.ids)
				}
			})
		})
	}
}
