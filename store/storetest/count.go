package storetest

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var countSentences = []Sentence{
	{Text: "An attempt counts when it is settled as failed; the delivery after it says so.",
		Name: "AttemptIsASettledFailure", Test: func(t *T) {
			t.put(t.msg("a"))
			for i := 1; i <= 5; i++ {
				d := t.claimOne()
				t.check(d.Attempt == i, "attempt %d; want %d", d.Attempt, i)
				t.retry(d, 0)
			}
		}},
	{Text: "A throttled retry counts a throttle and no attempt, until the message fails in another way; of its records the last ten are kept.",
		Name: "ThrottledIsNoAttempt", Needs: needs(store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			throttle := func() pawl.Delivery {
				d := t.claimOne()
				s := verdict(d, store.Retry)
				s.Throttled, s.Failure = true, failure("429")
				t.settled(s)
				t.Advance(time.Minute)
				return d
			}
			for i := range 25 {
				if d := throttle(); d.Attempt != 1 || d.Throttles != i {
					t.Fatalf("attempt %d, %d throttles; want attempt 1, %d", d.Attempt, d.Throttles, i)
				}
			}
			r := t.get(id)
			if r.Attempts != 0 || r.Throttles != 25 || len(r.History) != store.KeptThrottles ||
				!r.History[0].Throttled ||
				r.History[0].Attempt != 1 {
				t.Fatalf("%d attempts, %d throttles, %d records: %+v", r.Attempts, r.Throttles, len(r.History),
					r.History[0])
			}
			t.check(r.ThrottledSince.After(r.EnqueuedAt.Add(-time.Second)) &&
				!r.ThrottledSince.After(r.EnqueuedAt.Add(30*time.Second)), "throttled since %v, stored at %v",
				r.ThrottledSince, r.EnqueuedAt)
			d := t.claimOne()
			t.near("how long it is throttled", d.ThrottledFor, 25*time.Minute)
			t.release(d, 0)
			t.retry(t.claimOne(), 0)
			d = throttle()
			t.check(d.Attempt == 2 && d.Throttles == 0 && d.ThrottledFor == 0,
				"after another failure: attempt %d, %d throttles for %v", d.Attempt, d.Throttles, d.ThrottledFor)
			d = t.claimOne()
			t.check(d.Attempt == 2 && d.Throttles == 1, "throttled again: attempt %d, %d throttles", d.Attempt,
				d.Throttles)
			t.near("how long it is throttled again", d.ThrottledFor, time.Minute)
			if r := t.get(id); len(r.History) != store.KeptThrottles+1 || r.Attempts != 1 {
				t.Fatalf("%d attempts, %d records", r.Attempts, len(r.History))
			}
		}},
	{Text: "A release counts nothing.",
		Name: "ReleaseCountsNothing", Test: func(t *T) {
			t.put(t.msg("a"))
			for range 5 {
				d := t.claimOne()
				t.wantCounts(d, 1, 0)
				t.release(d, 0)
			}
		}},
	{Text: "Dead counts an attempt.",
		Name: "DeadCountsAnAttempt", Needs: needs(store.CanDeadLetters, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.retry(t.claimOne(), 0)
			t.kill(t.claimOne(), "dead")
			r := t.inState(id, store.IsDead)
			t.check(r.Attempts == 2 && len(r.History) == 2 && r.History[1].Attempt == 2,
				"dead letter of a second attempt: %+v", r)
		}},
	{Text: "What is recorded of a failed attempt: number, times by the store's clock, worker, kind, error, rule, action, next time.",
		Name: "FailureIsOnRecord", Needs: needs(store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.Advance(time.Minute)
			d := t.claimOne()
			t.settled(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Retry, After: 3 * time.Minute,
				Failure: store.Failure{
					Kind: "Download", Error: "refused", Rule: "download", Action: "retry in 3m", Inputs: "kind=Download",
					Worker: "host/1",
					Ran:    30 * time.Second,
				}})
			r := t.inState(id, store.Delayed)
			t.check(r.Attempts == 1 && len(r.History) == 1, "record after a retry: %+v", r)
			h := r.History[0]
			t.check(h.Attempt == 1 && h.Worker == "host/1" && h.Kind == "Download" && h.Error == "refused" &&
				h.Rule == "download" && h.Action == "retry in 3m" && h.Inputs == "kind=Download",
				"history of a retry: %+v", h)
			ran := h.EndedAt.Sub(h.StartedAt)
			t.check(ran == 30*time.Second, "the attempt took %v on record; want 30s", ran)
			t.near("the time from storing to failing", h.EndedAt.Sub(r.EnqueuedAt), time.Minute)
			t.near("the time to the next attempt", h.NextAt.Sub(h.EndedAt), 3*time.Minute)
			t.check(h.NextAt.Equal(r.NotBefore), "the attempt says next at %v, the message not before %v", h.NextAt,
				r.NotBefore)
		}},
	{Text: "The history holds every failed delivery, oldest first.",
		Name: "HistoryIsOldestFirst", Needs: needs(store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			for i, text := range []string{"one", "two", "three"} {
				t.fails(t.claimOne(), store.Retry, failure(text))
				h := t.get(id).History
				t.check(len(h) == i+1 && h[i].Error == text && h[i].Attempt == i+1 && h[0].Error == "one",
					"history after %d failures: %+v", i+1, h)
			}
		}},
	{Text: "The reason says why the message is where it is; a release gives its own.",
		Name: "ReasonIsOfTheLastTransition", Needs: needs(store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.check(t.get(id).Reason != "", "no reason for a message that waits")
			t.fails(t.claimOne(), store.Release, store.Failure{Error: "draining"})
			r := t.inState(id, store.Waiting)
			t.check(strings.Contains(r.Reason, "draining") && len(r.History) == 0, "record after a release: %+v", r)
			t.retry(t.claimOne(), 0)
			r = t.inState(id, store.Waiting)
			t.check(r.Reason == "failed", "reason after a retry: %q", r.Reason)
			t.kill(t.claimOne(), "gone for good")
			r = t.inState(id, store.IsDead)
			t.check(r.Reason == "gone for good", "reason of a dead letter: %q", r.Reason)
		}},
	{Text: "Longer errors are cut to MaxReason, and made into text that every store takes.",
		Name: "LongErrorsAreCut", Needs: needs(store.CanLookup), Test: func(t *T) {
			for _, text := range []string{
				strings.Repeat("x", store.MaxReason), strings.Repeat("x", store.MaxReason+1),
				strings.Repeat("é", store.MaxReason),
				"nul \x00 and bad utf-8 \xff\xfe", strings.Repeat("\x00", store.MaxReason), "' \" \\ \n %s {} \u2028",
			} {
				id := t.put(t.msg("a"))[0]
				t.fails(t.claimOne(), store.Retry, store.Failure{Kind: "K\x00\xff", Error: text, Rule: "r\x00\xff",
					Action: "a\x00\xff", Inputs: "i\x00\xff", Worker: "w\x00\xff"})
				r := t.get(id)
				h := r.History[0]
				t.check(h.Error == store.Text(text) && r.Reason == h.Error && h.Worker == store.Text("w\x00\xff"),
					"error %.40q became %.40q, reason %.40q, worker %q", text, h.Error, r.Reason, h.Worker)
				t.cancel(id)
			}
			t.hostileDeath()
		}},
}

// hostileDeath checks the same for a dead letter, whose kind can be searched.
func (t *T) hostileDeath() {
	id := t.put(t.msg("a"))[0]
	raw := pawl.Kind("K\x00\xff")
	t.fails(t.claimOne(), store.Dead, store.Failure{Kind: raw, Error: "e\x00\xff"})
	text := pawl.Kind(store.Text(string(raw)))
	r := t.get(id)
	t.check(r.Reason == store.Text("e\x00\xff") && (r.Kind == raw || r.Kind == text),
		"a dead letter of kind %q and reason %q", r.Kind, r.Reason)
}
