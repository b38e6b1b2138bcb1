package operate

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

func (e *explained) operate(kind, to, why string, sel Selection) *Operation {
	e.Helper()
	ops, err := OpenOperations(e.Store)
	e.check(err)
	plan, err := MakePlan(e.Context(), e, e, sel, kind, to)
	e.check(err)
	o, err := ops.Plan(e.Context(), kind, "ann", sel, plan)
	e.check(err)
	o.To, o.Reason = to, why
	e.check((&Runner{Operations: ops, Who: "ann"}).Run(e.Context(), o))
	return o
}

func (e *explained) die(ids ...string) {
	e.Helper()
	for _, id := range ids {
		e.append(pawl.Message{ID: id})
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken"}})
	}
}

// TestExplainFindsWhoTookItOut: the audit has the id.
func TestExplainFindsWhoTookItOut(t *testing.T) {
	e := newExplained(t)
	e.check(Audit(t.Context(), e, AuditEntry{Who: "bob", Action: "cancel",
		Filter: &Filter{IDs: []string{"gone", "kept"}},
		Count:  2, Result: AuditResult{1, 1}, Refused: []string{"kept"}}))
	x := NotKnown(t.Context(), e, "gone", here)
	e.says(x.Why, "unknown by now: bob cancelled it at 2026-03-01 12:00:00 UTC")
	if x.Situation != "unknown" || x.Removed.By != "bob" || !x.Removed.Sure || x.Since == nil {
		t.Errorf("%+v", x)
	}
	for _, id := range []string{"kept", "gon", "other"} {
		if x := NotKnown(t.Context(), e, id, here); x.Removed != nil || x.Why != "unknown: acked or never here" {
			t.Errorf("%s: %+v", id, x)
		}
	}
	e.check(Audit(t.Context(), e, AuditEntry{Who: "bob", Action: "cancel", Filter: &Filter{IDs: []string{"one", "two"}},
		Count: 2, Result: AuditResult{1, 1}}))
	if x := NotKnown(t.Context(), e, "one", here); x.Removed.Sure ||
		!strings.Contains(x.Why, "unless it was among those refused") {
		t.Errorf("%+v", x)
	}
	e.die("x")
	o := e.operate(KindDiscard, "", "customers who left", Selection{IDs: []string{"x", "never"}})
	x = NotKnown(t.Context(), e, "x", here)
	e.says(x.Why, "ann discarded it, a dead letter, at", ", operation "+o.ID, ": customers who left")
	if x.Removed.Action != "discard" || *x.Removed.OperationID != o.ID || *x.Removed.Reason != "customers who left" ||
		!x.Removed.Sure {
		t.Errorf("%+v", x.Removed)
	}
	if x := NotKnown(t.Context(), e, "never", here); x.Removed != nil {
		t.Errorf("%+v", x.Removed)
	}
}

// TestExplainNothingIsNull: what is not known is null in JSON.
func TestExplainNothingIsNull(t *testing.T) {
	b, err := json.Marshal(NotKnown(t.Context(), newExplained(t), "x", here))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"topic":null`, `"key":null`, `"since":null`, `"removed":null`, `"at":null`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s; want %s", b, want)
		}
	}
}

// TestExplainNamesWhatParked: a parked letter waits for another to be replayed first.
func TestExplainNamesWhatParked(t *testing.T) {
	e := newExplained(t)
	_, err := e.Declare(t.Context(), store.Declaration{Name: "t", Park: new(true)})
	e.check(err)
	e.append(pawl.Message{ID: "$a", Key: oneKey}, pawl.Message{ID: "b", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
	e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken"}})
	_, err = e.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}},
		store.Lease{Owner: "worker-1", For: time.Second})
	e.check(err)
	x := e.explain()
	e.says(x.Why, backend.ParkedReason, "that is $a, which died at 2026-03-01 12:00:00 UTC: broken")
	e.says(x.Next.Action, "that one first: pawl dead replay '$a' x")
	if x.Situation != SituationDead || x.BlockedBy != "$a" {
		t.Errorf("%+v", x)
	}
	_, err = e.Purge(t.Context(), "$a")
	e.check(err)
	x = e.explain()
	e.says(x.Next.Action, "to try again: pawl dead replay x")
	if x.BlockedBy != "" {
		t.Errorf("%+v", x)
	}
}

// TestExplainSaysWhereItWasReplayedFrom, when and by whom.
func TestExplainSaysWhereItWasReplayedFrom(t *testing.T) {
	for name, sel := range map[string]Selection{
		"by id":     {IDs: []string{"x"}},
		"by filter": {Filter: store.DeadFilter{Topic: "t"}},
		"all":       {},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExplained(t)
			e.die("x")
			e.now = e.now.Add(time.Minute)
			o := e.operate(KindReplay, "again", "", sel)
			e.now = e.now.Add(time.Minute)
			x := e.explain()
			e.says(x.Why,
				"it was a dead letter of topic t and is replayed, time 1, at 2026-03-01 12:01:00 UTC, by ann, operation "+
					o.ID)
			if x.Situation != SituationReplayed || *x.Topic != "again" || *x.Replayed.From != "t" ||
				*x.Replayed.OperationID != o.ID || *x.Replayed.By != "ann" {
				t.Errorf("%+v", x)
			}
		})
	}
	e := newExplained(t)
	e.die("x")
	_, err := e.Replay(t.Context(), "again", "x")
	e.check(err)
	if x := e.explain(); x.Replayed.By != nil || x.Replayed.From != nil || x.Replayed.At == nil {
		t.Errorf("without an audit: %+v", x.Replayed)
	}
}

// TestExplainSaysUntilWhenItIsRetained, by the setting of its topic.
func TestExplainSaysUntilWhenItIsRetained(t *testing.T) {
	e := newExplained(t)
	_, err := e.Declare(t.Context(), store.Declaration{Name: "t", Retain: new(time.Hour)})
	e.check(err)
	e.append(pawl.Message{ID: "x"})
	e.now = e.now.Add(time.Minute)
	e.settle(store.Settlement{Verdict: store.Ack})
	e.now = e.now.Add(time.Minute)
	e.at(e.explain(), time.Hour+time.Minute)
}

// TestExplainNamesTheRuleThatKilled: an attempt whose rule repeats it is not why a
// message is dead that somebody skipped.
func TestExplainNamesTheRuleThatKilled(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "x"})
	e.settle(store.Settlement{Verdict: store.Retry, Failure: store.Failure{Error: "no", Kind: "Command",
		Rule: "Command", Action: "retry: later"}})
	e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "ann: it never works",
		Kind: pawl.KindSkipped, Rule: "Command", Action: "retry: later"}})
	if x := e.explain(); x.Situation != SituationDead || strings.Contains(x.Why, "rule") {
		t.Errorf("%s: %s", x.Situation, x.Why)
	}
}

// here says that no other store has messages.
func here(context.Context, store.Store) (why, next string) { return "", "" }
