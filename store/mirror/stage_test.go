package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
	"github.com/pawl-dev/pawl/store/storetest"
)

// TestStages follows a topic through all of them and back, with what is appended and
// claimed in each.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		check := func(what string, old, moved []string) {
			t.Helper()
			flush(t, p.Store)
			same(t, what+", primary", listed(t, p.old, "mail")["ann"], old)
			same(t, what+", mirrored", listed(t, p.new, "mail")["ann"], moved)
		}
		id := func(n int) string { return mail("ann", n).ID }
		appendAll(t, p, mail("ann", 1))
		check("off", []string{id(1)}, nil)
		p.stage(t, "mail", to(mirror.Dual))
		appendAll(t, p, mail("ann", 2))
		check("dual", []string{id(1), id(2)}, []string{id(2)})
		ack(t, p.new, claim(t, p.new, "mail", 10)) // as whoever compares does
		p.stage(t, "mail", to(mirror.Draining))
		appendAll(t, p, mail("ann", 3))
		check("draining", []string{id(1), id(2)}, []string{id(3)})
		ds := claim(t, p, "mail", 10)
		same(t, "claimed while draining", ids(ds), []string{id(1), id(2)})
		ack(t, p, ds)
		p.stage(t, "mail", to(mirror.Moved))
		appendAll(t, p, mail("ann", 4), mail("ann", 5))
		check("moved", nil, []string{id(3), id(4), id(5)})
		ds = claim(t, p, "mail", 1)
		same(t, "claimed when moved", ids(ds), []string{id(3)})
		if lost, err := p.Extend(t.Context(), time.Minute, ds[0].Token); err != nil || len(lost) > 0 {
			t.Errorf("extend: %v, %v", lost, err)
		}
		ack(t, p, ds)
		p.stage(t, "mail", to(mirror.Returning))
		appendAll(t, p, mail("ann", 6))
		check("returning", []string{id(6)}, []string{id(4), id(5)})
		ds = claim(t, p, "mail", 10)
		same(t, "claimed when returning", ids(ds), []string{id(4), id(5)})
		ack(t, p, ds)
		p.stage(t, "mail", to(mirror.Dual))
		ds = claim(t, p, "mail", 10)
		same(t, "claimed when it has returned", ids(ds), []string{id(6)})
		ack(t, p, ds)
		p.stage(t, "mail", to(mirror.Off))
		appendAll(t, p, mail("ann", 7))
		check("off again", []string{id(7)}, nil)
	})
}

// TestClosing: appends wait, and go on with the next stage, or with the one before if
// nobody goes on.
func TestClosing(t *testing.T) {
	for _, next := range []mirror.Stage{mirror.Draining, mirror.Closing} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, mirror.Config{})
			p.stage(t, "mail", to(mirror.Dual))
			p.stage(t, "mail", func(plan *mirror.Plan) {
				plan.Stage, plan.From, plan.Until = mirror.Closing, mirror.Dual, time.Now().Add(20*time.Second)
			})
			done := make(chan time.Duration, 1)
			began := time.Now()
			go func() {
				_, err := p.Append(context.Background(), store.NewBatch(mail("ann", 1)))
				if err != nil {
					t.Error(err)
				}
				done <- time.Since(began)
			}()
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.Append(short, store.NewBatch(mail("ann", 2))); !errors.Is(err, store.ErrUnavailable) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who has no time is told %v", err)
			}
			if next == mirror.Draining {
				time.Sleep(3 * time.Second)
				p.stage(t, "mail", to(next))
			}
			took := <-done
			flush(t, p.Store)
			old, moved := count(listed(t, p.old, "mail")), count(listed(t, p.new, "mail"))
			if next == mirror.Draining && (old != 0 || moved != 1 || took > 6*time.Second) {
				t.Errorf("moved: %d and %d after %v", old, moved, took)
			}
			if next == mirror.Closing && (old != 1 || moved != 1 || took < 17*time.Second || took > 21*time.Second) {
				t.Errorf("given up: %d and %d after %v", old, moved, took)
			}
		})
	}
}

// TestLateCopies: what was queued before the topic moved is not written after that: it
// would be carried out twice. Nobody misses it.
func TestLateCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p := newPair(t, mirror.Config{Report: func(err error) {
			if !errors.Is(err, errDown) {
				told++
			}
		}})
		p.stage(t, "mail", to(mirror.Dual))
		p.target.down.Store(true)
		appendAll(t, p, mail("ann", 1))
		p.stage(t, "mail", to(mirror.Moved))
		p.target.down.Store(false)
		flush(t, p.Store)
		if n := count(listed(t, p.new, "mail")); n != 0 {
			t.Errorf("%d late copies", n)
		}
		if st := p.Stats()["mail"]; st.Late != 1 || st.Missed != 0 || st.Waiting() != 0 || told != 0 {
			t.Errorf("stats are %+v, told %d times", st, told)
		}
	})
}

// TestEmitAcross: what a delivery emits goes to the store that is in charge of its
// topic, under the same ids.
func TestEmitAcross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "post", to(mirror.Moved))
		appendAll(t, p, mail("ann", 1), pawl.Message{ID: "parent", Topic: "post"})
		emit := []pawl.Message{{Topic: "post"}, {Topic: "mail"}}
		ds := claim(t, p, "mail", 1)
		ack(t, p, ds, emit...)
		more := claim(t, p, "post", 1)
		if len(more) != 1 || more[0].ID != "parent" || more[0].Topic != "post" {
			t.Fatalf("claimed %+v", more)
		}
		ack(t, p, more, emit...)
		for _, parent := range []string{ds[0].ID, "parent"} {
			if _, err := p.new.Get(t.Context(), pawl.EmitID(parent, 0)); err != nil {
				t.Errorf("into the mirrored store, by %s: %v", parent, err)
			}
			if _, err := p.old.Get(t.Context(), pawl.EmitID(parent, 1)); err != nil {
				t.Errorf("into the primary, by %s: %v", parent, err)
			}
		}
	})
}

// TestMarksStayWithThePrimary: whichever store has the delivery, what its ack marks is found where all marks are.
func TestMarksStayWithThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "post", to(mirror.Moved))
		appendAll(t, p, mail("ann", 1), pawl.Message{ID: "p1", Topic: "post"})
		for _, topic := range []string{"mail", "post"} {
			ds := claim(t, p, topic, 1)
			refused, err := p.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID,
				Verdict: store.Ack, Marks: []pawl.Mark{{Scope: "seen", Key: topic}}}))
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
		}
		found, err := p.old.GetMarks(t.Context(), "seen", "mail", "post")
		if err != nil || len(found) != 2 {
			t.Errorf("marks %v, %v", found, err)
		}
	})
}

// TestTwoStores: topics of both stores are claimed by one call, in turns, and their
// tokens are settled where they come from.
func TestTwoStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "post", to(mirror.Moved))
		appendAll(t, p, mail("ann", 1), mail("ann", 2), pawl.Message{ID: "p1", Topic: "post"},
			pawl.Message{ID: "p2", Topic: "post"})
		var all []pawl.Delivery
		for range 4 {
			ds, err := p.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1}, {Topic: "post", Limit: 1}},
				store.Lease{For: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ds...)
		}
		topics := map[string]int{}
		for _, d := range all {
			topics[d.Topic]++
		}
		if topics["mail"] != 1 || topics["post"] != 2 {
			t.Errorf("claimed %v", topics)
		}
		ack(t, p, all)
		if n := count(listed(t, p.new, "post")); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// TestTurns: neither store keeps a worker from the other one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "post", to(mirror.Moved))
		topics := map[string]int{}
		for n := range 20 {
			appendAll(t, p, mail(fmt.Sprint(n), n), pawl.Message{Topic: "post"})
			ds, err := p.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1}, {Topic: "post", Limit: 1}},
				store.Lease{For: time.Minute})
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			topics[ds[0].Topic]++
		}
		if topics["mail"] != 10 || topics["post"] != 10 {
			t.Errorf("claimed %v", topics)
		}
	})
}

// mute is a store whose state can be made unreadable.
type mute struct {
	*memory.Store
	down atomic.Bool
}

func (m *mute) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	if m.down.Load() {
		return func(yield func(store.Entry, error) bool) {
			yield(store.Entry{}, &store.Error{Code: store.ErrUnavailable})
		}
	}
	return m.Store.ListState(ctx, prefix, after)
}

// TestStale: nobody appends by a stage that may be over.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &mute{Store: memory.New(memory.Config{})}
		s, err := mirror.New(old, memory.New(memory.Config{}), mirror.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		appendAll(t, s, mail("ann", 1))
		old.down.Store(true)
		time.Sleep(mirror.Fresh / 2)
		appendAll(t, s, mail("ann", 2))
		time.Sleep(mirror.Fresh)
		if _, err := s.Append(t.Context(), store.NewBatch(mail("ann", 3))); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("by a stage of %v ago: %v", mirror.Fresh, err)
		}
		old.down.Store(false)
		appendAll(t, s, mail("ann", 3))
	})
}

// TestClaimsWhileClosing go on with the store that had the topic before.
func TestClaimsWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for from, want := range map[mirror.Stage]string{mirror.Moved: "new-0001", mirror.Dual: "old-0001"} {
			p := newPair(t, mirror.Config{})
			appendAll(t, p.new, mail("new", 1))
			appendAll(t, p.old, mail("old", 1))
			p.stage(t, "mail", func(plan *mirror.Plan) {
				plan.Stage, plan.From, plan.Until = mirror.Closing, from, time.Now().Add(time.Minute)
			})
			same(t, "from "+string(from), ids(claim(t, p, "mail", 10)), []string{want})
		}
	})
}

// TestCopyIsNoDelivery: one that reaches the mirrored store when that is in charge is acked
// and handed to nobody, and what is beside it, or behind it in its lane, is handed out. A
// header that was passed on makes no copy.
func TestCopyIsNoDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		duplicate := func(m pawl.Message) pawl.Message {
			m.Headers = map[string]string{mirror.CopyHeader: m.ID}
			return m
		}
		passedOn := mail("dan", 1)
		passedOn.Headers = map[string]string{mirror.CopyHeader: "another"}
		appendAll(t, p.new, duplicate(mail("ann", 1)), mail("ann", 2), mail("bob", 1), duplicate(mail("bob", 2)),
			mail("bob", 3), duplicate(mail("cid", 1)), passedOn)
		p.stage(t, "mail", to(mirror.Moved))
		var done []string
		for range 5 {
			ds := claim(t, p, "mail", 10)
			done = append(done, ids(ds)...)
			if len(ds) > 0 {
				ack(t, p, ds)
			}
			time.Sleep(2 * time.Minute) // leases of what was held back have ended
		}
		slices.Sort(done)
		same(t, "handed out", done, []string{"ann-0002", "bob-0001", "bob-0003", "dan-0001"})
		if left := listed(t, p.new, "mail"); count(left) != 0 {
			t.Errorf("left are %v", left)
		}
	})
}

// TestPlans: changes of a plan do not overwrite one another.
func TestPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "mail", to(mirror.Dual))
		one, err1 := p.plans.Get(t.Context(), "mail")
		two, err2 := p.plans.Get(t.Context(), "mail")
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		one.Stage, two.Stage = mirror.Moved, mirror.Off
		if err := p.plans.Put(t.Context(), one, "one"); err != nil {
			t.Fatal(err)
		}
		if err := p.plans.Put(t.Context(), two, "two"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the second change: %v", err)
		}
	})
}

// TestCopiesAreCounted over all processes, also over those that have ended.
func TestCopiesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "mail", to(mirror.Dual))
		for i := range 3 {
			// Stores that outlive the mirror.
			one, err := mirror.New(stays{p.old}, stays{p.new}, mirror.Config{})
			if err != nil {
				t.Fatal(err)
			}
			appendAll(t, one, mail("ann", i))
			if i == 0 {
				time.Sleep(5 * time.Second)
				if sum, err := p.plans.Copies(t.Context(), "mail"); err != nil || sum.Written != 1 {
					t.Fatalf("it says %+v, %v", sum, err)
				}
			}
			if err := one.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if sum, err := p.plans.Copies(t.Context(), "mail"); err != nil || sum.Written != 3 || sum.Waiting() != 0 {
			t.Errorf("it says %+v, %v", sum, err)
		}
		if err := p.plans.Forget(t.Context(), "mail"); err != nil {
			t.Error(err)
		}
		if sum, err := p.plans.Copies(t.Context(), "mail"); err != nil || sum != (mirror.TopicStats{}) {
			t.Errorf("it says %+v, %v", sum, err)
		}
	})
}

// stays is a store that a Close does not close.
type stays struct{ *memory.Store }

func (stays) Close() error { return nil }

// TestReceiptsTellWhatIsStored: whichever of the two stores fails, and however, the
// receipts of a batch for both tell what is kept.
func TestReceiptsTellWhatIsStored(t *testing.T) {
	for _, failing := range []string{"primary", "mirrored"} {
		t.Run(failing, func(t *testing.T) {
			storetest.Receipts(t, func(t testing.TB, inner store.Store) (store.Store, func(string) bool) {
				sound := memory.New(memory.Config{})
				primary, mirrored := inner, store.Store(sound)
				if failing == "mirrored" {
					primary, mirrored = sound, inner
				}
				plans, err := mirror.OpenPlans(primary)
				if err != nil {
					t.Fatal(err)
				}
				plan, err := plans.Get(t.Context(), "there")
				if err != nil {
					t.Fatal(err)
				}
				plan.Stage = mirror.Moved
				if err := plans.Put(t.Context(), plan, "test"); err != nil {
					t.Fatal(err)
				}
				s, err := mirror.New(primary, mirrored, mirror.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s, storetest.Keepers(t, primary, mirrored)
			})
		})
	}
}

// TestSuspectsOfAMovedTopicAreTold: the topic of a message to be tried alone, in the store from which the topic is
// claimed, is told by its name here.
func TestSuspectsOfAMovedTopicAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		p.stage(t, "post", to(mirror.Moved))
		appendAll(t, p, pawl.Message{ID: "killer", Topic: "post"})
		for range store.SolitaryAfter {
			ds, err := p.Claim(t.Context(), []store.Want{{Topic: "post", Limit: 1}},
				store.Lease{For: time.Second, Suspects: store.MaxSuspects})
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			time.Sleep(2 * time.Second)
		}
		if name, err := p.Solitary(t.Context(), time.Minute, "mail", "post"); name != "post" || err != nil {
			t.Errorf("the store tells of topic %q: %v", name, err)
		}
	})
}
