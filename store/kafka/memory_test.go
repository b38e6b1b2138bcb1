package kafka

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// TestWhatWasFinishedIsRemembered: a partition that comes back as it was committed
// goes on where this process was. What is still carried out is repeated.
func TestWhatWasFinishedIsRemembered(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "c", "d")...)
	gs := r.claim(9)
	for _, i := range []int{0, 1, 3} {
		r.ack(gs[i])
	}
	found := *a.acked.Load()
	r.ownership.remember(a)
	r.ownership.drop(a)
	m := r.ownership.recall(rigTopic, 0, 1, found)
	if m == nil || m.cp.Base != 2 {
		t.Fatalf("remembered: %+v", m)
	}
	r.ownership.begin(rigTopic, 0, m.beginning(holder{source: 1}, found))
	b := r.engine.assignment(rigTopic, 0)
	r.take(b, records(2, "c", "d", "e")...)
	want(t, "while the handler of c runs", offsets(r.claim(9)), 4)
	if r.ack(gs[2]) {
		t.Error("a late ack counts")
	}
	want(t, "after it", offsets(r.claim(9)), 2)
	if cp := r.checkpoint(b); cp.Base != 2 || !cp.Has(3) || b.acked.Load().base != 0 {
		t.Errorf("to be committed: %+v, over %d", cp, b.acked.Load().base)
	}
	if r.ownership.recall(rigTopic, 0, 1, found) != nil {
		t.Error("it was remembered twice")
	}
}

// TestAMemoryThatDoesNotCount: of another log, or when somebody else has committed
// since, be it to carry out everything again.
func TestAMemoryThatDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		source uint32
		found  committedState
		want   bool
	}{
		"as it was committed":            {1, committedState{5, "acked"}, true},
		"as it was perhaps committed":    {1, committedState{6, "tried"}, true},
		"another topic of that name":     {2, committedState{5, "acked"}, false},
		"set back":                       {1, committedState{0, ""}, false},
		"set to where it is":             {1, committedState{5, ""}, false},
		"committed by somebody else":     {1, committedState{9, "theirs"}, false},
		"nothing is committed any more":  {1, committedState{-1, ""}, false},
		"somebody else's offset is ours": {1, committedState{6, "theirs"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Consuming{})
			a := r.assign(5)
			a.acked.Store(&committedState{5, "acked"})
			a.tried.Store(&committedState{6, "tried"})
			r.take(a, records(5, "a", "b")...)
			for _, g := range r.claim(9) {
				r.ack(g)
			}
			r.ownership.remember(a)
			if got := r.ownership.recall(rigTopic, 0, c.source, c.found); (got != nil) != c.want {
				t.Errorf("remembered: %+v", got)
			}
		})
	}
}

// TestAReturnIsWholeWhenItIsFound: the committer finds a partition that came back with
// what is committed of it, and not with how far this process is.
func TestAReturnIsWholeWhenItIsFound(t *testing.T) {
	found := committedState{base: 5, text: "theirs"}
	for range 500 {
		r := newRig(t, Consuming{})
		over := make(chan struct{})
		go func() {
			defer close(over)
			for {
				for _, a := range r.engine.assignments() { // as commit does, and then send
					if acked := *a.acked.Load(); acked != found {
						t.Errorf("committed is %+v, not %+v", acked, found)
					}
					return
				}
				runtime.Gosched()
			}
		}()
		m := lostProgress{source: 1, epoch: 3, cp: gate.Checkpoint{Base: 9}}
		r.ownership.begin(rigTopic, 0, m.beginning(holder{source: 1}, found))
		<-over
	}
}

// TestAPartitionIsLostWhileRecordsCome: those of the last fetch may be on their way into
// it when it is taken away. Both wait for the engine, so that they run side by side.
func TestAPartitionIsLostWhileRecordsCome(t *testing.T) {
	s, err := New(Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for range 100 {
		a := s.ownership.assign(rigTopic, 0, 1, 0, gate.Checkpoint{})
		var wg sync.WaitGroup
		s.engine.mu.Lock()
		wg.Go(func() {
			r := record(0, "")
			r.LeaderEpoch = 7
			s.group.accept(rigTopic, &kgo.FetchPartition{Records: []*kgo.Record{r}})
		})
		runtime.Gosched()
		wg.Go(func() { s.ownership.remember(a) })
		time.Sleep(2 * time.Millisecond) // longer, and the lock goes from hand to hand
		s.engine.mu.Unlock()
		wg.Wait()
		if m := s.ownership.recall(rigTopic, 0, 1, committedState{}); m == nil || m.epoch != -1 && m.epoch != 7 {
			t.Fatalf("remembered: %+v", m)
		}
	}
}
