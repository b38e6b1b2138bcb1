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
		Name: "AppendRepeatedReturnsTheFirstOutcome", Needs: needs(store.CanRepeatBatch, store.CanUnique), Test: func(t *T) {
			t.put(t.unique("first", "u", pawl.Unique{}))
			batch := store.NewBatch(t.msg("a"), pawl.Message{}, t.unique("b", "u", pawl.Unique{}), t.withID("mine", "c"),
				t.withID("mine", "d"))
			first, err := t.Store.Append(t.ctx(), batch)
			t.must(err)
			for range 2 {
				again, err := t.Store.Append(t.ctx(), batch)
				t.must(err)
				t.sameReceipts(again, first)
			}
			t.claims("first", "a", "c")
		}},
	{Text: "An Append that is repeated after its messages were acked does not bring them back.",
		Name: "AppendRepeatedAfterTheAck", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			batch := store.NewBatch(t.withID("mine", "a"), t.msg("b"))
			first, err := t.Store.Append(t.ctx(), batch)
			t.must(err)
			t.ack(t.claims("a", "b")...)
			again, err := t.Store.Append(t.ctx(), batch)
			t.must(err)
			t.sameReceipts(again, first)
			t.nothing()
		}},
	{Text: "Repeating a Settle with the same batch id returns the first refusals and changes nothing.",
		Name: "SettleRepeatedReturnsTheFirstOutcome", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"), t.msg("c"), t.msg("d"))
			ds := t.claims("a", "b", "c", "d")
			t.ack(ds[1])
			bad := verdict(ds[2], store.Ack)
			bad.After = -1
			batch := store.NewBatch(verdict(ds[0], store.Retry), verdict(ds[1], store.Ack), bad, verdict(ds[3], store.Ack))
			first, err := t.Store.Settle(t.ctx(), batch)
			t.must(err)
			if len(first) != 2 || first[0].Index != 1 || first[1].Index != 2 {
				t.Fatalf("refused %v; want items 1 and 2", first)
			}
			for range 2 {
				again, err := t.Store.Settle(t.ctx(), batch)
				t.must(err)
				t.sameRefusals(again, first)
			}
			ds = t.claims("a")
			if ds[0].Attempt != 2 {
				t.Fatalf("attempt %d after one retry that was sent three times", ds[0].Attempt)
			}
			again, err := t.Store.Settle(t.ctx(), batch) // while a new lease is there
			t.must(err)
			t.sameRefusals(again, first)
			t.ack(ds...)
		}},
	{Text: "A repeated Settle emits nothing again, even when what it emitted is gone already.",
		Name: "SettleRepeatedEmitsOnce", Needs: needs(store.CanRepeatBatch, store.CanEmitAtomic), Test: func(t *T) {
			t.put(t.msg("parent"))
			batch := store.NewBatch(emitting(t.claimOne(), t.msg("child")))
			for range 2 {
				refused, err := t.Store.Settle(t.ctx(), batch)
				if t.must(err); len(refused) > 0 {
					t.Fatalf("refused %v", refused)
				}
			}
			t.ack(t.claims("child")...)
			refused, err := t.Store.Settle(t.ctx(), batch)
			if t.must(err); len(refused) > 0 {
				t.Fatalf("refused %v", refused)
			}
			t.nothing()
		}},
	// batchIsRememberedForAnHour looks at two batches half an hour apart: a store that
	// remembers by the hour of the clock may be right about one of them.
	{Text: "A batch id is remembered for at least an hour.",
		Name: "BatchIsRememberedForAnHour", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			appended := store.NewBatch(t.msg("a"), t.msg("b"))
			first, err := t.Store.Append(t.ctx(), appended)
			t.must(err)
			settled := store.NewBatch(verdict(t.claimOne(), store.Ack))
			_, err = t.Store.Settle(t.ctx(), settled)
			t.must(err)
			pass := func(minutes int) {
				for range minutes {
					t.Advance(time.Minute)
					t.put(pawl.Message{Topic: "traffic"})
				}
			}
			again := func(batch store.Batch[pawl.Message], first []store.Receipt) {
				rs, err := t.Store.Append(t.ctx(), batch)
				t.must(err)
				t.sameReceipts(rs, first)
			}
			pass(30)
			later := store.NewBatch(t.msg("c"))
			second, err := t.Store.Append(t.ctx(), later)
			t.must(err)
			pass(29)
			again(appended, first)
			refused, err := t.Store.Settle(t.ctx(), settled)
			if t.must(err); len(refused) > 0 {
				t.Fatalf("refused %v after 59 minutes", refused)
			}
			pass(30)
			again(later, second)
			t.claims("b", "c")
		}},
	{Text: "An empty batch id asks for no memory: every such call takes effect.",
		Name: "EmptyBatchIDAsksForNoMemory", Test: func(t *T) {
			batch := store.Batch[pawl.Message]{Items: []pawl.Message{t.msg("a")}}
			for range 3 {
				rs, err := t.Store.Append(t.ctx(), batch)
				if t.must(err); rs[0].Err != nil || rs[0].DuplicateOf != "" {
					t.Fatalf("receipt %+v", rs[0])
				}
			}
			for _, d := range t.claims("a", "a", "a") {
				refused, err := t.Store.Settle(t.ctx(), store.Batch[store.Settlement]{Items: []store.Settlement{verdict(d,
					store.Ack)}})
				if t.must(err); len(refused) > 0 {
					t.Fatalf("refused %v", refused)
				}
			}
			t.nothing()
		}},
	{Text: "Two batch ids are the same only if all their bytes are.",
		Name: "BatchIDsAreCompared", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			want := 0
			for _, id := range append(oddIDs(), numbered("b", 20)...) {
				_, err := t.Store.Append(t.ctx(), store.Batch[pawl.Message]{ID: id, Items: []pawl.Message{t.msg("a")}})
				t.must(err)
				want++
			}
			if got := len(t.claim(100)); got != want {
				t.Fatalf("%d of %d batches with different ids were stored", got, want)
			}
		}},
	{Text: "Append answers with a receipt per message, in order: stored, a duplicate, or refused, each with the message's id.",
		Name: "ReceiptsAnswerInOrder", Test: func(t *T) {
			rs := t.append(t.withID("x", "a"), pawl.Message{ID: "bad"}, t.msg("b"), t.withID("y", "c"), pawl.Message{})
			for i, want := range []string{"x", "bad", "", "y", ""} {
				if rs[i].ID == "" || want != "" && rs[i].ID != want {
					t.Fatalf("receipt %d has id %q; want %q", i, rs[i].ID, want)
				}
				if refused := i == 1 || i == 4; refused != (rs[i].Err != nil) || rs[i].DuplicateOf != "" {
					t.Fatalf("receipt %d is %+v", i, rs[i])
				}
			}
			if ds := t.claims("a", "b", "c"); ds[1].ID != rs[2].ID {
				t.Fatalf("receipt %q, delivery %q", rs[2].ID, ds[1].ID)
			}
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
					if r.Err != nil {
						t.Fatalf("good message %d was refused: %v", i, r.Err)
					}
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
			t.put(t.msg("a"), t.msg("b"))
			ds := t.claims("a", "b")
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
			rs, err := t.Store.Append(t.ctx(), store.NewBatch[pawl.Message]())
			if t.must(err); len(rs) != 0 {
				t.Fatalf("receipts %v", rs)
			}
			refused, err := t.Store.Settle(t.ctx(), store.NewBatch[store.Settlement]())
			if t.must(err); len(refused) != 0 {
				t.Fatalf("refused %v", refused)
			}
			lost, err := t.Store.Extend(t.ctx(), time.Minute)
			if t.must(err); len(lost) != 0 {
				t.Fatalf("lost %v", lost)
			}
			if ds := t.claimFrom(t.Store, store.Lease{For: time.Minute}); len(ds) != 0 {
				t.Fatalf("claimed %q without a want", bodiesOf(ds))
			}
		}},
	{Text: "Append does not change the caller's batch: ids that it assigns are in the receipts.",
		Name: "AppendLeavesItsBatchAlone", Test: func(t *T) {
			m := pawl.Message{Topic: t.Topic, Key: []byte("key"), Body: []byte("body"), Headers: map[string]string{"a": "b"}}
			batch := store.NewBatch(m, t.msg("b"))
			before := store.Batch[pawl.Message]{ID: batch.ID, Items: []pawl.Message{m, t.msg("b")}}
			_, err := t.Store.Append(t.ctx(), batch)
			t.must(err)
			if !reflect.DeepEqual(batch, before) {
				t.Fatalf("append changed its batch to %+v", batch)
			}
		}},
}

// sameReceipts compares receipts; errors by their text.
func (t *T) sameReceipts(got, want []store.Receipt) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d receipts; want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if (g.Err == nil) != (w.Err == nil) || g.Err != nil && g.Err.Error() != w.Err.Error() {
			t.Fatalf("receipt %d: error %v; want %v", i, g.Err, w.Err)
		}
		g.Err, w.Err = nil, nil
		if g != w {
			// The id of a message that was refused is made up for every call.
			if got[i].Err == nil {
				t.Fatalf("receipt %d is %+v; want %+v", i, g, w)
			}
		}
	}
}

func (t *T) sameRefusals(got, want []store.Refusal) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("refused %v; want %v", got, want)
	}
	for i := range got {
		if got[i].Index != want[i].Index || errors.Is(got[i].Err, pawl.ErrLeaseLost) != errors.Is(want[i].Err,
			pawl.ErrLeaseLost) {
			t.Fatalf("refused %v; want %v", got, want)
		}
	}
}
