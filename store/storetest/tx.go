package storetest

import (
	"errors"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var txSentences = []Sentence{
	{Text: "What was appended in the caller's transaction exists once it commits, not before.",
		Name: "TxAppendCommits", Test: func(t *T) {
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, t.keyed("k", "a"), t.msg("b"))
				t.putTx(do, t.keyed("k", "c"))
				if t.TxStalls == "" {
					t.nothing()
				}
				return true
			})
			t.claims("a", "c", "b")
		}},
	{Text: "What was appended in the caller's transaction does not exist if it rolls back: no message, no id, no unique key.",
		Name: "TxAppendRollsBack", Test: func(t *T) {
			m := t.unique("a", "u", pawl.Unique{})
			m.ID = "mine"
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, m, t.keyed("k", "b"))
				return false
			})
			t.nothing()
			t.put(m)
			t.lane("k", "c")
			t.claims("a", "c")
		}},
	{Text: "An append in the caller's transaction answers like Append: receipts, duplicates, refusals, also of what it appended itself.",
		Name: "TxAppendAnswersLikeAppend", Needs: needs(store.CanUnique), Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{}))[0]
			t.Tx(t, func(do appendTx) bool {
				rs := t.putTx(do, t.unique("b", "u", pawl.Unique{}), t.unique("c", "v", pawl.Unique{}), pawl.Message{},
					t.withID("mine", "d"))
				t.check(rs[0].DuplicateOf == first && rs[1].DuplicateOf == "" && rs[2].Err != nil &&
					rs[3].ID == "mine" && rs[3].DuplicateOf == "", "receipts %+v", rs)
				again := t.putTx(do, t.unique("e", "v", pawl.Unique{}), t.withID("mine", "f"))
				t.check(again[0].DuplicateOf == rs[1].ID && again[1].DuplicateOf == "mine", "receipts %+v", again)
				_, err := do(store.Batch[pawl.Message]{Items: make([]pawl.Message, store.MaxBatch+1)})
				t.wantErr(err, store.ErrTooLarge)
				return true
			})
			t.claims("a", "c", "d")
		}},
	{Text: "An append in a caller's transaction that has ended is refused, and stores nothing.",
		Name: "TxAppendAfterTheEnd", Test: func(t *T) {
			for _, commit := range []bool{true, false} {
				var late appendTx
				t.Tx(t, func(do appendTx) bool {
					late = do
					return commit
				})
				_, err := late(store.NewBatch(t.msg("a")))
				t.wantErr(err, store.ErrInvalid)
			}
			t.nothing()
		}},
	{Text: "A caller's transaction that stays open stalls nobody: appends, claims and settles of the same topic and lane go on, also of a message whose unique key it found taken.",
		Name: "OpenTxStallsNobody", Needs: needs(store.CanUnique), OpenTx: true, Test: func(t *T) {
			taken := t.unique("u", "u", pawl.Unique{})
			first := t.put(taken)[0]
			u := t.claimOne()
			t.lane("k", "a")
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, t.keyed("k", "tx"), t.msg("own"), pawl.Message{Topic: "new", Body: []byte("x")})
				r := t.putTx(do, taken)[0]
				t.check(r.DuplicateOf == first, "receipt %+v; want a duplicate of %s", r, first)
				t.duplicate(first, taken)
				t.ack(u)
				t.lane("k", "b")
				t.put(t.msg("c"))
				ds := t.claims("a", "b", "c")
				t.extend(lease, ds...)
				t.retry(ds[2], 0)
				t.ack(ds[0], ds[1])
				t.ack(t.claims("c")...)
				t.put(pawl.Message{Topic: "new", Body: []byte("y")})
				return true
			})
			var got []string
			t.eventually("what was committed is claimed", func() bool {
				got = append(got, bodiesOf(t.claim(10))...)
				return len(got) == 2
			})
		}},
	// A store that remembers how far it has read must not step
	// over what was invisible then. It may take its time: in real time, bounded.
	{Text: "What is committed long after later messages were claimed is found.",
		Name: "LateCommitIsFound", OpenTx: true, Test: func(t *T) {
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, t.msg("late"), t.keyed("k", "late in a lane"))
				for range 5 {
					t.fill(200)
					t.workOff(500, 0)
				}
				return true
			})
			var got []string
			t.eventually("what was committed late is claimed", func() bool {
				t.fill(10)
				ds := t.claim(500)
				for _, d := range ds {
					if b := string(d.Body); b == "late" || b == "late in a lane" {
						got = append(got, b)
					}
				}
				t.ack(ds...)
				return len(got) == 2
			})
		}},
	{Text: "What is committed late is behind what was given out of its lane before: that keeps the head.",
		Name: "LateCommitTakesNoHead", OpenTx: true, Test: func(t *T) {
			for _, limit := range []int{1, 2, 10} {
				key := strconv.Itoa(limit)
				var ds []pawl.Delivery
				t.Tx(t, func(do appendTx) bool {
					t.putTx(do, t.keyed(key, "late"), t.keyed(key, "late too"))
					t.lane(key, "a", "b")
					ds = t.claim(2)
					t.wantBodies(ds, "a", "b")
					t.lane(key, "c")
					t.retry(ds[0], 0)
					return true
				})
				var got []string
				t.eventually("everything of the lane is claimed", func() bool {
					ds := t.claim(limit)
					t.ack(ds...)
					got = append(got, bodiesOf(ds)...)
					return len(got) == 5
				})
				t.check(slices.Equal(got[:2], []string{"a", "b"}) && got[4] == "c",
					"with a limit of %d the order was %q; want what was given out before first", limit, got)
			}
		}},
}

type appendTx = func(store.Batch[pawl.Message]) ([]store.Receipt, error)

// putTx appends within the caller's transaction.
func (t *T) putTx(do appendTx, msgs ...pawl.Message) []store.Receipt {
	rs, err := do(store.NewBatch(msgs...))
	t.must(err)
	return rs
}

// ackTx acks in a transaction of the caller; false if the backend does not.
func (t *T) ackTx(d pawl.Delivery, commit bool, want error) bool {
	if t.AckTx == nil {
		return false
	}
	err := t.AckTx(t, d.Token, commit)
	t.check(errors.Is(err, want), "ack in a transaction: %v, want %v", err, want)
	return true
}

var txAckSentences = []Sentence{
	{Text: "What a caller's transaction acks is acked if it commits: its run goes on, and its lane is free after the last of it.",
		Name: "TxAckCommits", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("solo"))
			ds := t.claims("a", "b", "solo")
			for _, d := range ds {
				if !t.ackTx(d, true, nil) {
					return
				}
				t.lost(verdict(d, store.Release))
			}
			t.lane("k", "c")
			t.ack(t.claims("c")...)
			t.later(expiry)
		}},
	{Text: "An ack in a transaction that is rolled back changes nothing: the delivery can be settled as before.",
		Name: "TxAckRollsBack", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("solo"))
			ds := t.claims("a", "b", "solo")
			for _, d := range ds {
				if !t.ackTx(d, false, nil) {
					return
				}
			}
			t.nothing()
			t.ack(ds[0], ds[2])
			t.release(ds[1], 0)
			t.ack(t.claims("b")...)
		}},
	{Text: "An ack in a transaction is fenced: whose lease has ended is told that it is lost, and changes nothing.",
		Name: "TxAckIsFenced", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a")
			t.put(t.msg("solo"))
			old := t.claims("a", "solo")
			now := t.later(expiry, "a", "solo")
			for _, d := range old {
				if !t.ackTx(d, true, pawl.ErrLeaseLost) {
					return
				}
			}
			t.ack(now...)
		}},
}
