package storetest

import (
	"errors"
	"reflect"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var batchSentences = []Sentence{
	{Text: "Repeating an Append with the same batch id returns the first receipts and stores nothing.",
		Name: "AppendRepeatedReturnsTheFirstOutcome", Needs: needs(store.CanRepeatBatch, store.CanUnique),
		Test: func(t *T) {
			t.put(t.unique("first", "u", pawl.Unique{}))
			batch := store.NewBatch(t.msg("a"), pawl.Message{}, t.unique("b", "u", pawl.Unique{}), t.withID("mine", "c"),
				t.withID("mine", "d"))
			first := t.appendBatch(batch)
			for range 2 {
				t.sameReceipts(t.appendBatch(batch), first)
			}
			t.claims("first", "a", "c")
		}},
	{Text: "An Append that is repeated after its messages were acked does not bring them back.",
		Name: "AppendRepeatedAfterTheAck", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			batch := store.NewBatch(t.withID("mine", "a"), t.msg("b"))
			first := t.appendBatch(batch)
			t.ack(t.claims("a", "b")...)
			t.sameReceipts(t.appendBatch(batch), first)
			t.nothing()
		}},
	{Text: "Repeating a Settle with the same batch id returns the first refusals and changes nothing.",
		Name: "SettleRepeatedReturnsTheFirstOutcome", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			ds := t.claimed("a", "b", "c", "d")
			t.ack(ds[1])
			bad := verdict(ds[2], store.Ack)
			bad.After = -1
			batch := store.NewBatch(verdict(ds[0], store.Retry), verdict(ds[1], store.Ack), bad,
				verdict(ds[3], store.Ack))
			first := t.wantItems(t.settleBatch(batch), 1, 2)
			for range 2 {
				t.sameRefusals(t.settleBatch(batch), first)
			}
			ds = t.claims("a")
			t.wantCounts(ds[0], 2, 0)
			t.sameRefusals(t.settleBatch(batch), first) // while a new lease is there
			t.ack(ds...)
		}},
	{Text: "A repeated Settle emits nothing again, even when what it emitted is gone already.",
		Name: "SettleRepeatedEmitsOnce", Needs: needs(store.CanRepeatBatch, store.CanEmitAtomic), Test: func(t *T) {
			t.put(t.msg("parent"))
			batch := store.NewBatch(emitting(t.claimOne(), t.msg("child")))
			for range 2 {
				t.wantItems(t.settleBatch(batch))
			}
			t.ack(t.claims("child")...)
			t.wantItems(t.settleBatch(batch))
			t.nothing()
		}},
	// Two batches are half an hour apart: a store that remembers by the hour of the clock may
	// be right about one of them.
	{Text: "A batch id is remembered for at least an hour.",
		Name: "BatchIsRememberedForAnHour", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			appended := store.NewBatch(t.msg("a"), t.msg("b"))
			first := t.appendBatch(appended)
			settled := store.NewBatch(verdict(t.claimOne(), store.Ack))
			t.must(errOf(t.Store.Settle(t.ctx(), settled)))
			pass := func(minutes int) {
				for range minutes {
					t.Advance(time.Minute)
					t.put(pawl.Message{Topic: "traffic"})
				}
			}
			again := func(batch store.Batch[pawl.Message], first []store.Receipt) {
				rs := t.appendBatch(batch)
				t.sameReceipts(rs, first)
			}
			pass(30)
			later := store.NewBatch(t.msg("c"))
			second := t.appendBatch(later)
			pass(29)
			again(appended, first)
			t.wantItems(t.settleBatch(settled)) // after 59 minutes
			pass(30)
			again(later, second)
			t.claims("b", "c")
		}},
	{Text: "An empty batch id asks for no memory: every such call takes effect.",
		Name: "EmptyBatchIDAsksForNoMemory", Test: func(t *T) {
			batch := store.Batch[pawl.Message]{Items: []pawl.Message{t.msg("a")}}
			for range 3 {
				rs := t.appendBatch(batch)
				t.check(rs[0].Err == nil && rs[0].DuplicateOf == "", "receipt %+v", rs[0])
			}
			for _, d := range t.claims("a", "a", "a") {
				acks := store.Batch[store.Settlement]{Items: []store.Settlement{verdict(d, store.Ack)}}
				t.wantItems(t.settleBatch(acks))
			}
			t.nothing()
		}},
	{Text: "Two batch ids are the same only if all their bytes are.",
		Name: "BatchIDsAreCompared", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			ids := append(oddIDs(), numbered("b", 20)...)
			for _, id := range ids {
				t.appendBatch(store.Batch[pawl.Message]{ID: id, Items: []pawl.Message{t.msg("a")}})
			}
			t.claimsMany(100, len(ids))
		}},
	{Text: "Append answers with a receipt per message, in order: stored, a duplicate, or refused, each with the message's id.",
		Name: "ReceiptsAnswerInOrder", Test: func(t *T) {
			rs := t.append(t.withID("x", "a"), pawl.Message{ID: "bad"}, t.msg("b"), t.withID("y", "c"), pawl.Message{})
			for i, want := range []string{"x", "bad", "", "y", ""} {
				t.check(rs[i].ID != "" && (want == "" || rs[i].ID == want), "receipt %d has id %q; want %q", i,
					rs[i].ID, want)
				refused := i == 1 || i == 4
				t.check(refused == (rs[i].Err != nil) && rs[i].DuplicateOf == "", "receipt %d is %+v", i, rs[i])
			}
			ds := t.claims("a", "b", "c")
			t.check(ds[1].ID == rs[2].ID, "receipt %q, delivery %q", rs[2].ID, ds[1].ID)
		}},
	{Text: "A message that no store takes is refused by itself, with an InvalidError; the rest of the batch is stored.",
		Name: "BadItemIsRefusedAlone", Test: func(t *T) {
			bad := badMessages(t.Topic)
			var batch []pawl.Message
			var want []string
			for i, m := range bad {
				want = append(want, numbered("good", len(bad))[i])
				batch = append(batch, m, t.msg(want[i]))
			}
			for i, r := range t.append(batch...) {
				if i%2 == 1 {
					t.check(r.Err == nil, "good message %d was refused: %v", i, r.Err)
					continue
				}
				if r.Err == nil || r.DuplicateOf != "" {
					t.Fatalf("message %d was not refused: %.100v", i, bad[i/2])
				}
				t.invalid(r.Err)
			}
			t.claims(want...)
		}},
	{Text: "A settlement that no store takes is refused by itself, with an InvalidError, and its delivery stays leased.",
		Name: "BadSettlementIsRefusedAlone", Test: func(t *T) {
			ds := t.claimed("a", "b")
			for _, change := range []func(*store.Settlement){
				func(s *store.Settlement) { s.Verdict = 0 },
				func(s *store.Settlement) { s.Verdict = store.Release + 1 },
				func(s *store.Settlement) { s.After = -time.Second },
				func(s *store.Settlement) { s.After = pawl.MaxDelay + 1 },
				func(s *store.Settlement) { s.Hold = -time.Second },
				func(s *store.Settlement) { s.Verdict, s.Hold = store.Retry, pawl.MaxDelay+1 },
				func(s *store.Settlement) { s.Emit = make([]pawl.Message, 1) },
				func(s *store.Settlement) { s.Throttled = true },
			} {
				s := verdict(ds[0], store.Ack)
				change(&s)
				t.refusedAlone(s)
			}
			t.nothing()
			t.settled(verdict(ds[1], store.Ack), verdict(ds[0], store.Ack))
		}},
	{Text: "A call without items does nothing, and is no error.",
		Name: "EmptyCallsAreFine", Test: func(t *T) {
			t.append()
			t.settled()
			lost, err := t.Store.Extend(t.ctx(), time.Minute)
			t.must(err)
			t.check(len(lost) == 0, "lost %v", lost)
			t.wantBodies(t.claimWith(store.Lease{For: time.Minute})) // without a want
		}},
	{Text: "Append does not change the caller's batch: ids that it assigns are in the receipts.",
		Name: "AppendLeavesItsBatchAlone", Test: func(t *T) {
			m := t.keyed("key", "body")
			m.Headers = map[string]string{"a": "b"}
			batch := store.NewBatch(m, t.msg("b"))
			before := store.Batch[pawl.Message]{ID: batch.ID, Items: []pawl.Message{m, t.msg("b")}}
			t.must(errOf(t.Store.Append(t.ctx(), batch)))
			t.check(reflect.DeepEqual(batch, before), "append changed its batch to %+v", batch)
		}},
}

// sameReceipts compares receipts; errors by their text.
func (t *T) sameReceipts(got, want []store.Receipt) {
	t.check(len(got) == len(want), "%d receipts; want %d", len(got), len(want))
	for i := range got {
		g, w := got[i], want[i]
		t.check((g.Err == nil) == (w.Err == nil) && (g.Err == nil || g.Err.Error() == w.Err.Error()),
			"receipt %d: error %v; want %v", i, g.Err, w.Err)
		g.Err, w.Err = nil, nil
		if g != w && got[i].Err == nil { // the id of a message that was refused is made up for every call
			t.Fatalf("receipt %d is %+v; want %+v", i, g, w)
		}
	}
}

func (t *T) sameRefusals(got, want []store.Refusal) {
	t.check(len(got) == len(want), "refused %v; want %v", got, want)
	lost := func(r store.Refusal) bool { return errors.Is(r.Err, pawl.ErrLeaseLost) }
	for i := range got {
		t.check(got[i].Index == want[i].Index && lost(got[i]) == lost(want[i]), "refused %v; want %v", got, want)
	}
}
