package storetest

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// These sentences run in real time, with a bound that says no more than "soon".
var wakeSentences = []Sentence{
	{Text: "Listen's channel receives soon after an append to one of its topics.",
		Name: "WakeOnAppend", Test: func(t *T) {
			ch := t.listen("none", t.Topic)
			for _, b := range []string{"a", "b", "c"} {
				t.put(t.msg(b))
				t.woken(ch)
			}
			t.claims("a", "b", "c")
		}},
	{Text: "Listen's channel receives soon after a message was emitted into one of its topics.",
		Name: "WakeOnEmit", Needs: needs(store.CanEmitAtomic), Test: func(t *T) {
			d := t.claimed("parent")[0]
			ch := t.listen("other")
			t.emit(d, pawl.Message{Topic: "other"})
			t.woken(ch)
		}},
	{Text: "Listen's channel receives soon after a delay or a retry is due.",
		Name: "WakeWhenDue", Needs: needs(store.CanDelay), Test: func(t *T) {
			ch := t.listen(t.Topic)
			t.put(t.delayed(t.msg("late"), 200*time.Millisecond))
			t.Advance(time.Second)
			t.woken(ch)
			t.eventually("the delayed message is there", func() bool { return len(t.claim(1)) == 1 })
			d := t.claimed("retried")[0]
			ch = t.listen(t.Topic)
			t.retry(d, 200*time.Millisecond)
			t.Advance(time.Second)
			t.woken(ch)
		}},
	{Text: "Listen's channel receives soon after another process appended.",
		Name: "WakeOnPeersAppend", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			ch := t.listen(t.Topic)
			peer.put(t.msg("a"))
			t.woken(ch)
			t.claims("a")
		}},
	{Text: "Listen's channel receives soon after a lane that has more to do is free again.",
		Name: "WakeWhenTheLaneIsFree", Test: func(t *T) {
			d := t.headOf("k", "a", "b")
			ch := t.listen(t.Topic)
			t.ack(d)
			t.woken(ch)
		}},
	{Text: "Listen's channel receives soon after a replay.",
		Name: "WakeOnReplay", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			id := t.died(t.msg("a"), "K", "r")
			ch := t.listen(t.Topic)
			t.replay("", id)
			t.woken(ch)
		}},
	{Text: "The channel has capacity one: nobody who appends waits for a listener that does not read.",
		Name: "WakeIsOneHint", Test: func(t *T) {
			ch := t.listen(t.Topic)
			for range 20 {
				t.put(t.msg("a"))
			}
			t.woken(ch)
		}},
	{Text: "Listening ends with its context; the channel is not closed, and others go on listening.",
		Name: "WakeEndsWithItsContext", Test: func(t *T) {
			ctx, cancel := context.WithCancel(context.Background())
			ended, other := t.listenUntil(ctx, t.Topic), t.listen(t.Topic)
			cancel()
			t.put(t.msg("a"))
			t.woken(other)
			select {
			case _, open := <-ended:
				t.check(open, "the channel was closed")
			default:
			}
			t.wantErr(errOf(optional[store.Waker](t).Listen(cancelled(), t.Topic)), context.Canceled)
		}},
}

// listen listens to the test's topic, and empties the channel before it returns.
func (t *T) listen(topics ...string) <-chan struct{} {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return t.listenUntil(ctx, topics...)
}

func (t *T) listenUntil(ctx context.Context, topics ...string) <-chan struct{} {
	ch, err := optional[store.Waker](t).Listen(ctx, topics...)
	t.must(err)
	t.check(cap(ch) == 1, "a channel of capacity %d", cap(ch))
	select {
	case <-ch: // a hint too many is allowed
	default:
	}
	return ch
}

// woken waits for a hint.
func (t *T) woken(ch <-chan struct{}) {
	select {
	case _, open := <-ch:
		t.check(open, "the channel was closed")
	case <-time.After(t.timeout):
		t.Fatalf("no wake-up within %v", t.timeout)
	}
}
