package operate

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// explain is what is said of message x.
func (e *explained) explain() *Explanation {
	e.Helper()
	x, err := Explain(e.Context(), e, e, e, "x")
	e.check(err)
	return x
}

// says holds an explanation to what its words have to contain.
func (e *explained) says(text string, parts ...string) {
	e.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			e.Errorf("%q; want %q in it", text, part)
		}
	}
}

// at holds the next step to a moment, so long after the beginning.
func (e *explained) at(x *Explanation, after time.Duration) {
	e.Helper()
	want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(after)
	if x.Next.At == nil || !x.Next.At.Equal(want) {
		e.Errorf("next at %v, want %v", x.Next.At, want)
	}
}

// TestExplainCountsTheLane: the third of a lane does not wait for the first alone.
func TestExplainCountsTheLane(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "b", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey},
		pawl.Message{ID: "y", Key: oneKey})
	x := e.explain()
	e.says(x.Why, "2 are before it; the first is a, which waits, too")
	e.says(x.Next.Action, "when all before it (2) are done")
	if x.BlockedBy != "a" || x.Lane == nil || *x.Lane != (LanePlace{Before: 2}) {
		t.Errorf("blocked by %s, lane %+v", x.BlockedBy, x.Lane)
	}
	e.claim(store.Lease{})
	if x = e.explain(); x.BlockedBy != "a" || x.Lane.Before != 2 {
		t.Errorf("with a at work: blocked by %s, lane %+v", x.BlockedBy, x.Lane)
	}
}

// TestExplainCountsALongLaneInPart: counting has an end.
func TestExplainCountsALongLaneInPart(t *testing.T) {
	e := newExplained(t)
	var all []pawl.Message
	for i := range 1500 {
		all = append(all, pawl.Message{ID: fmt.Sprint("m", i), Key: oneKey})
	}
	e.append(append(all, pawl.Message{ID: "x", Key: oneKey})...)
	x := e.explain()
	e.says(x.Why, "at least 1,000 are before it; the first is m0")
	if *x.Lane != (LanePlace{Before: 1000, More: true}) {
		t.Errorf("lane %+v", x.Lane)
	}
}

// TestExplainSaysWhatRemainsAfterAPause: a pause hides nothing else.
func TestExplainSaysWhatRemainsAfterAPause(t *testing.T) {
	e := newExplained(t)
	e.announce(roster.Topic{Topic: "t"})
	e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
	e.check(e.Pause(t.Context(), "t", 0, "ann", "the server moves"))
	x := e.explain()
	e.says(x.Why, "ann paused its topic: the server moves; when it goes on: ", "before it is a")
	e.says(x.Next.Action, "pawl topics resume t; then it is claimable when that one is done")
	if x.Situation != SituationPaused || x.BlockedBy != "a" || *x.AfterPause != SituationBehind || x.Pause.By != "ann" {
		t.Errorf("%+v", x)
	}
	e.check(e.Pause(t.Context(), "t", time.Hour, "ann", ""))
	x = e.explain()
	e.says(x.Why, "ann paused its topic until 2026-03-01 13:00:00 UTC; ")
	e.says(x.Next.Action, "the topic goes on, sooner if", "then it is claimable")
	e.at(x, time.Hour)
}

func TestExplainSaysOfASuspectThatItIsOneInAPause(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "x"})
	e.rescued(4)
	e.check(e.Pause(t.Context(), "t", 0, "ann", ""))
	if x := e.explain(); x.Situation != SituationPaused || *x.AfterPause != SituationSuspect ||
		!strings.Contains(x.Why, "processed alone") {
		t.Errorf("%+v", x)
	}
	e.announce(roster.Topic{Topic: "t", LimitedBy: "mailhost"})
	e.append(pawl.Message{ID: "y"})
	if x, err := Explain(t.Context(), e, e, e, "y"); err != nil || *x.AfterPause != SituationLimited ||
		*x.Limit != "mailhost" {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestExplainNamesTheLaterEnd: of a delay, or a hold, and a pause.
func TestExplainNamesTheLaterEnd(t *testing.T) {
	for name, prepare := range map[string]func(e *explained){
		"delayed": func(e *explained) { e.append(pawl.Message{ID: "x", Delay: time.Minute}) },
		"held": func(e *explained) {
			e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
			e.settle(store.Settlement{Verdict: store.Ack, Hold: time.Minute})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExplained(t)
			prepare(e)
			e.check(e.Pause(t.Context(), "t", 2*time.Hour, "ann", "maintenance"))
			x := e.explain()
			e.at(x, 2*time.Hour)
			e.says(x.Why, "ann paused its topic until 2026-03-01 14:00:00 UTC: maintenance")
			e.says(x.Next.Action, "the pause ends, and it is claimable; sooner,", "if somebody resumes")
			if x.Situation != name || !x.Pause.Until.Equal(*x.Next.At) {
				t.Errorf("%+v", x)
			}
			e.check(e.Pause(t.Context(), "t", 10*time.Second, "ann", ""))
			x = e.explain()
			e.at(x, time.Minute)
			if strings.Contains(x.Next.Action, "resume") {
				t.Errorf("a pause that ends first: next %q", x.Next.Action)
			}
			e.check(e.Pause(t.Context(), "t", 0, "ann", ""))
			x = e.explain()
			e.at(x, time.Minute)
			e.says(x.Next.Action, "at the earliest; somebody has to resume the topic first")
		})
	}
}

// TestExplainMissesTheWorker: without one nothing is claimed next.
func TestExplainMissesTheWorker(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "x"})
	unserved := func(when string) {
		t.Helper()
		x := e.explain()
		e.says(x.Why, "no worker is known to serve the topic")
		e.says(x.Next.Action, "pawl work t --exec CMD", "pawl up")
		if x.Situation != SituationReady || x.Served == nil || *x.Served {
			t.Errorf("%s: %+v", when, x)
		}
	}
	unserved("nobody")
	e.announce(roster.Topic{Topic: "other"})
	unserved("a worker of another topic")
	e.announce(roster.Topic{Topic: "t"})
	if x := e.explain(); !*x.Served || strings.Contains(x.Why, "no worker") {
		t.Errorf("a worker: %+v", x)
	}
	e.now = e.now.Add(time.Minute)
	unserved("one that said nothing for long")
}

// TestExplainCountsWhoOnlyHolds: a program that uses the library says nothing.
func TestExplainCountsWhoOnlyHolds(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "a"}, pawl.Message{ID: "x"})
	e.claim(store.Lease{})
	if x := e.explain(); !*x.Served {
		t.Errorf("%+v", x)
	}
	e.announce(roster.Topic{Topic: "t"})
	e.now = e.now.Add(30 * time.Second)
	if x := e.explain(); *x.Served {
		t.Errorf("it is gone: %+v", x)
	}
}

// TestExplainSaysWhenARateLetsItBegin: a plain rate can be computed, others cannot.
func TestExplainSaysWhenARateLetsItBegin(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "a"}, pawl.Message{ID: "x"})
	limited := func(l roster.Limit) *Explanation {
		l.Limit = "slow"
		e.announce(roster.Topic{Topic: "t", LimitedBy: "slow", HeldBack: 1, Limits: []roster.Limit{{Limit: "other"}, l}})
		return e.explain()
	}
	x := limited(roster.Limit{PerSecond: 0.5})
	e.at(x, 6*time.Second)
	if x.Situation != SituationLimited || *x.Limit != "slow" {
		t.Errorf("%+v", x)
	}
	for _, l := range []roster.Limit{{Concurrency: 3}, {PerSecond: 1, ByKey: true}, {PerSecond: 1, Window: 2}} {
		if x := limited(l); x.Next.At != nil || *x.Limit != "slow" {
			t.Errorf("%+v: next %+v", l, x.Next)
		}
	}
}

// blind is a store that does not tell what other processes hold.
type blind struct{ *memory.Store }

func (b blind) Describe() store.Description {
	d := b.Store.Describe()
	d.Capabilities = maps.Clone(d.Capabilities)
	delete(d.Capabilities, store.CanLookup)
	return d
}

// TestExplainSaysWhatItCannotSee: a message that another process holds looks as if it
// waited, in a store without a look-up.
func TestExplainSaysWhatItCannotSee(t *testing.T) {
	e := newExplained(t)
	e.announce(roster.Topic{Topic: "t"})
	e.append(pawl.Message{ID: "x"})
	x, err := Explain(t.Context(), blind{e.Store}, e, e, "x")
	e.check(err)
	e.says(x.Why, "another process may work on it, or retry it later")
	e.says(x.Next.Action, "unless one is doing so already")
}
