package sqlstore

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

func TestSettlementsAreDecided(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	const second, minute = time.Second, time.Minute
	failed := store.Failure{Kind: pawl.Kind("unreachable"), Error: "no route"}
	released := backend.ReleasedReason(&failed)
	solo := Delivery{Attempts: 2, Last: true}
	inRun := Delivery{Attempts: 2, Keyed: true}
	lastOfRun := Delivery{Attempts: 2, Keyed: true, Last: true}
	tail := Delivery{Attempts: 2, Keyed: true, Tail: true}
	lastAtTail := Delivery{Attempts: 2, Keyed: true, Tail: true, Last: true}
	soloAtTail := Delivery{Attempts: 2, Tail: true, Last: true}
	for name, c := range map[string]struct {
		is        store.Settlement
		of        Delivery
		want      Decision // without Failed
		fails     bool
		next      time.Duration // of Failed; 0: none
		throttled bool
	}{
		"ack within a run": {is: store.Settlement{Verdict: store.Ack}, of: inRun,
			want: Decision{Attempts: 2, Leaves: true}},
		"ack of the last": {is: store.Settlement{Verdict: store.Ack}, of: lastOfRun,
			want: Decision{Attempts: 2, Leaves: true, Ends: true}},
		"ack that holds": {is: store.Settlement{Verdict: store.Ack, Hold: minute}, of: inRun,
			want: Decision{Attempts: 2, Leaves: true, Ends: true, Closed: minute}},
		"ack waits for nothing": {is: store.Settlement{Verdict: store.Ack, After: minute}, of: lastOfRun,
			want: Decision{Attempts: 2, Leaves: true, Ends: true}},
		"dead": {is: store.Settlement{Verdict: store.Dead, Hold: second}, of: inRun, fails: true,
			want: Decision{Attempts: 3, Reason: "no route", Leaves: true, Ends: true, Closed: second}},
		"retry of the head": {is: store.Settlement{Verdict: store.Retry, After: minute, Hold: second}, of: inRun,
			fails: true, next: minute,
			want: Decision{Attempts: 3, Reason: "no route", Ends: true, Closed: minute}},
		"retry that holds longer": {is: store.Settlement{Verdict: store.Retry, After: second, Hold: minute}, of: solo,
			fails: true, next: minute,
			want: Decision{Attempts: 3, Reason: "no route", Ends: true, Closed: minute}},
		"throttled retry": {is: store.Settlement{Verdict: store.Retry, After: second, Throttled: true}, of: solo,
			fails: true, next: second, throttled: true,
			want: Decision{Attempts: 2, Reason: "no route", Ends: true, Closed: second}},
		"retry at the tail": {is: store.Settlement{Verdict: store.Retry, After: minute}, of: tail,
			fails: true, next: minute,
			want: Decision{Attempts: 3, Reason: "no route", Leaves: true, Delayed: true}},
		"last retry at the tail": {is: store.Settlement{Verdict: store.Retry, After: minute}, of: lastAtTail,
			fails: true, next: minute,
			want: Decision{Attempts: 3, Reason: "no route", Leaves: true, Delayed: true, Ends: true}},
		"retry at the tail that holds": {is: store.Settlement{Verdict: store.Retry, After: second, Hold: minute},
			of: tail, fails: true, next: second,
			want: Decision{Attempts: 3, Reason: "no route", Leaves: true, Delayed: true, Ends: true, Closed: minute}},
		"no key has a tail": {is: store.Settlement{Verdict: store.Retry, After: minute}, of: soloAtTail,
			fails: true, next: minute,
			want: Decision{Attempts: 3, Reason: "no route", Ends: true, Closed: minute}},
		"release": {is: store.Settlement{Verdict: store.Release, After: second}, of: tail,
			want: Decision{Attempts: 2, Reason: released, Ends: true, Closed: second}},
	} {
		c.is.Failure = failed
		got := Decide(&c.is, c.of, now.Add)
		a := got.Failed
		if got.Failed = nil; got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
		if (a != nil) != c.fails {
			t.Errorf("%s: attempt %v", name, a)
		}
		if a == nil {
			continue
		}
		var next time.Time
		if c.next > 0 {
			next = now.Add(c.next)
		}
		if a.Attempt != 3 || a.Throttled != c.throttled || !a.NextAt.Equal(next) || !a.EndedAt.Equal(now) {
			t.Errorf("%s: attempt %+v", name, *a)
		}
	}
}
