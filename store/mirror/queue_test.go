package mirror

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestCountedInIsInTheQueue: nobody sees a copy that is counted in and is not in its
// queue yet. Close ends the queues when it has seen that nothing more is counted in.
func TestCountedInIsInTheQueue(t *testing.T) {
	const adders, each = 4, 2_000
	q := &queue{news: make(chan struct{}, 1)} // nobody takes from it
	c := &copier{cfg: Config{Count: adders * each, Bytes: DefaultBytes}, queues: []*queue{q}}
	c.stats.Topics = map[string]*TopicStats{}
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				c.add(&Plan{Topic: "t"}, pawl.Message{ID: "m", Topic: "t"})
			}
		})
	}
	apart := 0
	for counted := 0; counted < adders*each; {
		c.mu.Lock()
		q.mu.Lock()
		if counted = c.count; counted != len(q.waiting) {
			apart++
		}
		q.mu.Unlock()
		c.mu.Unlock()
	}
	wg.Wait()
	if apart > 0 {
		t.Errorf("%d times a copy was counted in and was in no queue", apart)
	}
}

// copierTo is a copier without queues.
func copierTo(target store.Store, st *stages) *copier {
	return newCopier(target, Config{}, st)
}

func copyOf(id, topic string) duplicate {
	return duplicate{message: pawl.Message{ID: id, Topic: topic, Key: []byte("k")}, topic: topic}
}

// mumbling is a store that takes what it is given, and does not say so.
type mumbling struct {
	*memory.Store
	mute bool
}

func (m *mumbling) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := m.Store.Append(ctx, batch)
	if m.mute && err == nil {
		return nil, &store.Error{Op: "append", Code: store.ErrUnavailable, Err: errors.New("no answer")}
	}
	return receipts, err
}

// TestOtherCopiesAreAnotherBatch: as many copies of other messages do not get the receipts
// of those that were sent before.
func TestOtherCopiesAreAnotherBatch(t *testing.T) {
	target := &mumbling{memory.New(memory.Config{}), true}
	plan := func(topic string, s Stage) *Plan {
		return &Plan{Topic: topic, Stage: s, Until: time.Now().Add(time.Hour)}
	}
	st := &stages{known: map[string]*Plan{"one": plan("one", Dual), "two": plan("two", Closing)}}
	c, try := copierTo(target, st), call{}
	batch := []duplicate{copyOf("x", "one"), copyOf("y", "two")}
	if _, err := c.attempt(t.Context(), &try, batch); !errors.Is(err, store.ErrUnavailable) || len(try.send) != 1 {
		t.Fatalf("sent %v, %v", try.send, err)
	}
	first := try.id
	if _, err := c.attempt(t.Context(), &try, batch); !errors.Is(err, store.ErrUnavailable) || try.id != first {
		t.Errorf("the same copies go out as %s and %s, %v", first, try.id, err)
	}
	target.mute = false
	st.known = map[string]*Plan{"one": plan("one", Closing), "two": plan("two", Dual)}
	receipts, err := c.attempt(t.Context(), &try, batch)
	if err != nil || len(receipts) != 1 || receipts[0].ID != "y" {
		t.Errorf("receipts are %+v, %v", receipts, err)
	}
	if _, err := target.Get(t.Context(), "y"); err != nil {
		t.Errorf("the second copy: %v", err)
	}
}

// reopening is a primary in which a topic opens after it was read so many times.
type reopening struct {
	*memory.Store
	reads int
	open  func()
}

func (r *reopening) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range r.Store.ListState(ctx, prefix, after) {
			if !yield(e, err) {
				break
			}
		}
		if r.reads--; r.reads == 0 {
			r.open()
		}
	}
}

// TestATopicStaysTogether: a topic that opens while copies are sorted has none sent
// before one that is held.
func TestATopicStaysTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &reopening{Store: memory.New(memory.Config{})}
		st := newStages(primary, false)
		put := func(s Stage) {
			p, err := st.plans.Get(t.Context(), "mail")
			if p.Stage, p.From, p.Until = s, Dual, time.Now().Add(time.Hour); err == nil {
				err = st.plans.Put(t.Context(), p, "test")
			}
			if err != nil {
				t.Error(err)
			}
		}
		put(Closing)
		// A closed topic is read twice, first to look at it, and then because it is closed.
		primary.reads, primary.open = 4, func() { put(Dual) }
		c, try := copierTo(memory.New(memory.Config{}), st), call{}
		late, err := c.sort(t.Context(), &try, []duplicate{copyOf("1", "mail"), copyOf("2", "mail")})
		if err != nil || len(late) != 0 || len(try.send) != 0 || len(try.held) != 2 {
			t.Errorf("sent %d, held %d, late %d, %v", len(try.send), len(try.held), len(late), err)
		}
		if _, err = c.sort(t.Context(), &try, try.held); err != nil || len(try.send) != 2 ||
			try.send[0].message.ID != "1" {
			t.Errorf("then sent %v, %v", try.send, err)
		}
	})
}
