package kafka

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// TestRoomIsGivenInTurn: who asked first is served first, a small call does not pass a
// large one, and what is larger than the buffer goes alone.
func TestRoomIsGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{limit: 100}
		var served []int
		ask := func(bytes int) {
			go func() {
				if err := b.take(t.Context(), bytes); err != nil {
					t.Error(err)
				}
				served = append(served, bytes) // one at a time: the bubble waits in between
			}()
			synctest.Wait()
		}
		ask(60)
		ask(500)
		ask(30)
		if len(served) != 1 {
			t.Fatalf("served: %v", served)
		}
		b.give(60)
		synctest.Wait()
		if len(served) != 2 || served[1] != 500 {
			t.Fatalf("served: %v; want the large one alone", served)
		}
		b.give(500)
		synctest.Wait()
		b.give(30)
		if len(served) != 3 || b.used != 0 || len(b.queue) != 0 {
			t.Fatalf("served: %v, %d in use, %d wait", served, b.used, len(b.queue))
		}
	})
}

// TestWhoGivesUpKeepsNoRoom: a call that does not get room in time surely failed, holds
// nothing, and lets those behind it go on.
func TestWhoGivesUpKeepsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{limit: 100}
		if err := b.take(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gaveUp, behind := make(chan error, 1), make(chan error, 1)
		go func() { gaveUp <- b.take(ctx, 50) }()
		synctest.Wait()
		go func() { behind <- b.take(t.Context(), 40) }()
		if err := <-gaveUp; !errors.Is(err, errNoRoom) || !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(failure(err, ""), store.ErrUnavailable) || errors.Is(failure(err, ""), store.ErrUnknown) {
			t.Error(err)
		}
		if err := <-behind; err != nil {
			t.Error(err)
		}
		if b.used != 100 || len(b.queue) != 0 {
			t.Errorf("%d in use, %d wait", b.used, len(b.queue))
		}
	})
}

// TestNothingFollowsAFailureOfItsTopic: within a call, once a record with a key has failed,
// nothing of its topic is sent any more; one that was refused for good does not count.
func TestNothingFollowsAFailureOfItsTopic(t *testing.T) {
	c := newCall(10)
	follows := func(topic string) bool { return c.to(t.Context(), topic).Err() != nil }
	for i, r := range []struct {
		topic, key string
		err        error
		follows    bool // who comes then
	}{
		{"a", "ok", nil, false}, {"a", "bad", kerr.InvalidRecord, false}, {"a", "", kgo.ErrRecordTimeout, false},
		{"a", "late", kgo.ErrRecordTimeout, true}, {"b", "ok", nil, false},
		{"b", "huge", kerr.MessageTooLarge, true},
	} {
		record := &kgo.Record{Topic: r.topic}
		if r.key != "" {
			record.Key = []byte(r.key)
		}
		follows(r.topic)
		if c.answer(i, record, r.err); follows(r.topic) != r.follows {
			t.Errorf("after %v of key %q: who comes then follows a failure: %v", r.err, r.key, !r.follows)
		}
	}
	if err := failure(errFollows, ""); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
}
