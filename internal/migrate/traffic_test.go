package migrate

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
	"github.com/pawl-dev/pawl/store/mirror"
)

// road is two stores in memory with a mirror over them, and the traffic between them.
type road struct {
	*testing.T
	old, new *memory.Store
	through  *mirror.Store
	traffic  *Traffic
}

// onRoad runs a test in a bubble of time.
func onRoad(t *testing.T, test func(*road)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &road{T: t, old: memory.New(memory.Config{}), new: memory.New(memory.Config{})}
		var err error
		if r.through, err = mirror.New(r.old, r.new, mirror.Config{}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.through.Close() }()
		if r.traffic, err = New(t.Context(), r.old, r.new, "tester", "memory:"); err != nil {
			t.Fatal(err)
		}
		test(r)
	})
}

func (r *road) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// copies begins to copy the topic, and lets everybody know.
func (r *road) copies() {
	r.Helper()
	err := r.traffic.Begin(r.Context(), "mail", false)
	r.must(err)
	time.Sleep(settleTime)
}

func (r *road) append(s store.Store, ms ...pawl.Message) {
	r.Helper()
	_, err := s.Append(r.Context(), store.NewBatch(ms...))
	r.must(err)
	r.must(r.through.Flush(r.Context()))
}

// aCopy is the copy of a message.
func aCopy(m pawl.Message) pawl.Message {
	m.Headers = map[string]string{mirror.CopyHeader: m.ID}
	return m
}

func letter(key string, n int) pawl.Message {
	return pawl.Message{ID: fmt.Sprint(key, n), Topic: "mail", Key: []byte(key), Body: []byte("dear " + key)}
}

// work carries out what can be claimed through the mirror, and returns the ids.
func (r *road) work() (done []string) {
	r.Helper()
	for {
		ds, err := r.through.Claim(r.Context(), []store.Want{{Topic: "mail", Limit: 100}},
			store.Lease{For: time.Minute})
		r.must(err)
		if len(ds) == 0 {
			return done
		}
		var items []store.Settlement
		for i := range ds {
			done = append(done, ds[i].ID)
			items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
		}
		_, err = r.through.Settle(r.Context(), store.NewBatch(items...))
		r.must(err)
	}
}

func (r *road) compare(patience time.Duration) *Comparison {
	r.Helper()
	c, err := r.traffic.Compare(r.Context(), "mail", patience, false)
	r.must(err)
	return c
}

// TestCompareFinds every kind of difference, and names the key.
func TestCompareFinds(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.append(r.old, letter("before", 1))
		r.copies()
		r.append(r.through, letter("good", 1), letter("good", 2))
		r.append(r.old, letter("missing", 1))
		for n := range 3 {
			r.append(r.old, letter("order", n))
			time.Sleep(time.Millisecond)
		}
		for _, n := range []int{1, 0, 2} {
			r.append(r.new, aCopy(letter("order", n)))
			time.Sleep(time.Millisecond)
		}
		other := letter("body", 1)
		r.append(r.old, other)
		other.Body = []byte("another")
		r.append(r.new, aCopy(other))
		c := r.compare(2 * time.Second)
		if c.Missing != 1 || c.Disordered != 1 || c.Different != 1 || c.Before != 1 || c.Compared != 6 || c.Late != 0 ||
			c.Found() != 3 {
			t.Errorf("found %+v", *c)
		}
		var keys []string
		for _, d := range c.Diffs {
			keys = append(keys, *d.Key)
		}
		if !slices.Equal(keys, []string{"body", "missing", "order"}) ||
			!slices.Equal(c.Diffs[1].IDs, []string{"missing1"}) {
			t.Errorf("differences are %+v", c.Diffs)
		}
		if done := r.work(); len(done) != 8 {
			t.Fatalf("%v were done", done)
		}
		if c := r.compare(2 * time.Second); c.Found() != 0 || c.Done != 6 {
			t.Errorf("when all is done: %+v", *c)
		}
	})
}

// TestCompareIsAShadow: copies go when their originals are done, and not before; and
// the old store is only looked at.
func TestCompareIsAShadow(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.must2(r.old.Declare(t.Context(), store.Declaration{Name: "mail", Tail: new(true), Retain: new(time.Hour)}))
		r.copies()
		if there, err := r.new.Topic(t.Context(), "mail"); err != nil || !there.Tail || there.Retain != time.Hour {
			t.Fatalf("there: %+v, %v", there, err)
		}
		r.append(r.through, letter("ann", 1), letter("ann", 2), letter("bob", 1))
		ds, err := r.through.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1, Run: 1}},
			store.Lease{For: time.Hour})
		r.must(err)
		_, err = r.through.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID,
			Verdict: store.Ack}))
		r.must(err)
		before, err := r.old.Stats(t.Context(), "mail")
		r.must(err)
		c := r.compare(2 * time.Second)
		if c.Done != 1 || c.Known != 1 || c.Found() != 0 || c.Compared != 2 {
			t.Errorf("found %+v", *c)
		}
		after, err := r.old.Stats(t.Context(), "mail")
		r.must(err)
		if after[0].Waiting != before[0].Waiting || after[0].Acked != before[0].Acked || after[0].Leased != 0 {
			t.Errorf("the old store was %+v and is %+v", before[0], after[0])
		}
		if s, err := r.new.Stats(t.Context(), "mail"); err != nil || unfinished(s[0]) != 2 {
			t.Errorf("the new store has %+v, %v", s, err)
		}
	})
}

func (r *road) must2(_ store.Topic, err error) {
	r.Helper()
	r.must(err)
}

// TestCutOverAndBack with a worker and a producer that go on meanwhile.
func TestCutOverAndBack(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		var order []string
		stop, n := make(chan struct{}), 0
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					order = append(order, r.work()...)
					return
				case <-time.After(20 * time.Millisecond):
				}
				if _, err := r.through.Append(context.Background(),
					store.NewBatch(pawl.Message{ID: fmt.Sprintf("%06d", n), Topic: "mail",
						Key: []byte("k")})); err != nil {
					t.Error(err)
				}
				n++
				if n%3 == 0 {
					order = append(order, r.work()...)
				}
			}
		}()
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: 10 * time.Second})
		if err != nil || moved.Stage != mirror.Moved || moved.ClosedSeconds > 4 || moved.Seconds < 10 {
			t.Fatalf("cut over: %+v, %v", moved, err)
		}
		if s, err := r.old.Stats(t.Context(), "mail"); err != nil || unfinished(s[0]) != 0 {
			t.Errorf("the old store: %+v, %v", s, err)
		}
		again, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Hour})
		if err != nil || again.Stage != mirror.Moved {
			t.Errorf("again: %+v, %v", again, err)
		}
		time.Sleep(5 * time.Second)
		moved, err = r.traffic.RollBack(t.Context(), "mail", Moving{})
		if err != nil || moved.Stage != mirror.Dual {
			t.Fatalf("roll back: %+v, %v", moved, err)
		}
		time.Sleep(5 * time.Second)
		close(stop)
		<-ended
		if !slices.IsSorted(order) || len(order) != n || len(slices.Compact(order)) != n {
			t.Errorf("%d of %d are done, in order: %v", len(order), n, slices.IsSorted(order))
		}
	})
}

// TestCutOverWaits for differences to go, and changes nothing when it gives up.
func TestCutOverWaits(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		if _, err := r.traffic.CutOver(t.Context(), "mail", Moving{}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("of a topic that is not copied: %v", err)
		}
		r.copies()
		r.append(r.old, letter("missing", 1))
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second, Timeout: 5 * time.Second})
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "1 message is missing") {
			t.Errorf("with a difference: %v", err)
		}
		r.work()
		r.append(r.through, letter("slow", 1))
		moved, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second, Timeout: 5 * time.Second})
		if !errors.Is(err, ErrUnfinished) || moved.Stage != mirror.Draining {
			t.Errorf("without workers: %+v, %v", moved, err)
		}
		r.append(r.through, letter("slow", 2))
		if done := r.work(); !slices.Equal(done, []string{"slow1"}) {
			t.Errorf("while draining %v were done", done)
		}
		if moved, err = r.traffic.CutOver(t.Context(), "mail", Moving{}); err != nil || moved.Stage != mirror.Moved {
			t.Errorf("on it goes: %+v, %v", moved, err)
		}
		if done := r.work(); !slices.Equal(done, []string{"slow2"}) {
			t.Errorf("when moved %v were done", done)
		}
		r.append(r.old, letter("late", 1))
		if st, err := r.traffic.Status(t.Context()); err != nil || len(st) != 1 || len(st[0].Problems) != 1 {
			t.Errorf("status: %+v, %v", st, err)
		}
	})
}

// TestRollBackIsTheSameTheOtherWay: what the new store has is done there, also what is
// delayed, before what came to the old one since; dead letters stay.
func TestRollBackIsTheSameTheOtherWay(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		r.must(err)
		r.append(r.through, letter("ann", 1), pawl.Message{ID: "delayed", Topic: "mail", Delay: 40 * time.Second})
		moved, err := r.traffic.RollBack(t.Context(), "mail", Moving{Timeout: 5 * time.Second})
		if !errors.Is(err, ErrUnfinished) || moved.Stage != mirror.Returning {
			t.Errorf("without workers: %+v, %v", moved, err)
		}
		r.append(r.through, letter("ann", 2))
		if done := r.work(); !slices.Equal(done, []string{"ann1"}) {
			t.Errorf("while returning %v were done", done)
		}
		time.Sleep(time.Minute)
		if done := r.work(); !slices.Equal(done, []string{"delayed"}) {
			t.Errorf("while returning %v were done", done)
		}
		if ps := r.problems(); len(ps) != 1 || !strings.Contains(ps[0], "traffic roll-back mail") {
			t.Errorf("problems are %v", ps)
		}
		moved, err = r.traffic.RollBack(t.Context(), "mail", Moving{})
		if err != nil || moved.Stage != mirror.Dual {
			t.Errorf("roll back: %+v, %v", moved, err)
		}
		if done := r.work(); !slices.Equal(done, []string{"ann2"}) {
			t.Errorf("%v are done", done)
		}
	})
}

// TestOriginalsOfTheNewStoreStay: what is no copy is never consumed as one, and a roll-back
// works it off.
func TestOriginalsOfTheNewStoreStay(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		r.append(r.new, letter("late", 1))
		if c := r.compare(2 * time.Second); c.Originals != 1 || c.Done != 0 || c.Found() != 0 {
			t.Errorf("found %+v", *c)
		}
		if moved, err := r.traffic.RollBack(t.Context(), "mail", Moving{Timeout: time.Second}); !errors.Is(err,
			ErrUnfinished) || moved.Stage != mirror.Returning {
			t.Errorf("%+v, %v", moved, err)
		}
		if done := r.work(); !slices.Equal(done, []string{"late1"}) {
			t.Errorf("%v were done", done)
		}
		moved, err := r.traffic.RollBack(t.Context(), "mail", Moving{})
		if err != nil || moved.Stage != mirror.Dual {
			t.Errorf("%+v, %v", moved, err)
		}
	})
}

// problems are those of the status.
func (r *road) problems() []string {
	r.Helper()
	st, err := r.traffic.Status(r.Context(), "mail")
	r.must(err)
	return st[0].Problems
}

// TestBeginWantsAnEmptyTopic: what is in the new store would be taken for copies.
func TestBeginWantsAnEmptyTopic(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.append(r.new, letter("foreign", 1))
		if err := r.traffic.Begin(t.Context(), "mail", false); !errors.Is(err, store.ErrConflict) {
			t.Errorf("begin: %v", err)
		}
		r.must2(r.old.Declare(t.Context(), store.Declaration{Name: "mail", Order: store.OrderNone,
			Deadline: time.Minute}))
		_, err := r.new.Cancel(t.Context(), "foreign1")
		r.must(err)
		r.must(r.traffic.Begin(t.Context(), "mail", false))
		if s, err := r.new.Topic(t.Context(), "mail"); err != nil || s.Order != store.OrderNone ||
			s.Deadline != time.Minute {
			t.Errorf("the settings in the new store are %+v, %v", s, err)
		}
		err = r.traffic.Stop(t.Context(), "mail", false)
		r.must(err)
		if st, err := r.traffic.Status(t.Context()); err != nil || len(st) != 0 {
			t.Errorf("status: %+v, %v", st, err)
		}
	})
}
