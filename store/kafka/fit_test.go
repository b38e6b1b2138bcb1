package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// What a log does not take is told before anything is sent, with the words of the
// receipt.
func TestFitTellsWhatAppendRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, brisk(fakeCluster(t, 1).ListenAddrs()))
	for name, m := range map[string]pawl.Message{
		"plain":      {Topic: "a"},
		"delay":      {Topic: "a", Delay: time.Second},
		"unique":     {Topic: "a", Unique: pawl.Unique{Key: "u"}},
		"large":      {Topic: "a", Body: make([]byte, 1<<20+1)},
		"dead topic": {Topic: "a.dead"},
		"state":      {Topic: "pawl.state"},
	} {
		why := store.Fit(s, &m)
		rs, err := s.Append(t.Context(), store.NewBatch(m))
		if err != nil || (rs[0].Err == nil) != (why == nil) || (why == nil) != (name == "plain") {
			t.Errorf("%s: Fit says %v, Append %v, %v", name, why, rs, err)
		} else if why != nil && why.Error() != rs[0].Err.Error() {
			t.Errorf("%s: Fit says %v, Append %v", name, why, rs[0].Err)
		}
	}
}

// A retry at the tail is a delayed message, which a log does not keep: neither a declaration nor a change takes it.
func TestTailIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, brisk(fakeCluster(t, 1).ListenAddrs()))
	_, err := s.Declare(t.Context(), store.Declaration{Name: "a", Tail: new(true)})
	if !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("declared: %v", err)
	}
	now, err := s.Declare(t.Context(), store.Declaration{Name: "a", Tail: new(false), Deadline: time.Minute})
	if err != nil || now.Tail {
		t.Fatal(now, err)
	}
	now.Tail = true
	if _, err := s.Alter(t.Context(), now); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("altered: %v", err)
	}
}

// die lets a message of a topic die.
func die(t *testing.T, s *kafka.Store, topic string) string {
	t.Helper()
	for range 1000 {
		if ds := kill(t, s, topic); len(ds) > 0 {
			return ds[0].ID
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nothing came")
	return ""
}

// Nothing but the store itself writes to the topics of its state and dead letters: a
// message would vanish there.
func TestOwnTopicsTakeNoMessages(t *testing.T) {
	t.Parallel()
	s := open(t, brisk(fakeCluster(t, 1).ListenAddrs()))
	send(t, s, "orders", 0, 1)
	id := die(t, s, "orders")
	for _, topic := range []string{"orders.dead", "pawl.state"} {
		if _, err := s.Replay(t.Context(), topic, id); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("replay to %s: %v", topic, err)
		}
		r := store.Record{Message: pawl.Message{Topic: topic, ID: "x"}, State: store.IsDead, Kind: "K", Reason: "r",
			DeadAt: time.Now(), EnqueuedAt: time.Now()}
		if refused, err := s.Import(t.Context(), r); err != nil || !errors.Is(refused["x"], store.ErrInvalid) {
			t.Errorf("import in %s: %v, %v", topic, refused, err)
		}
	}
	if ids, _ := found(t, s); len(ids) != 1 || ids[0] != id {
		t.Errorf("the letter is gone: %v", ids)
	}
	if refused, err := s.Replay(t.Context(), "", id); err != nil || len(refused) > 0 {
		t.Errorf("%v, %v", refused, err)
	}
	if seen := receive(t, s, "orders", 1); seen[id] != 1 {
		t.Errorf("%v", seen)
	}
}
