package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// explaining a store whose clock the test moves.
type explained struct {
	*testing.T
	*memory.Store
	now time.Time
}

// Skip is that of the store, not of the test.
func (e *explained) Skip(ctx context.Context, reason string, ids ...string) (map[string]error, error) {
	return e.Store.Skip(ctx, reason, ids...)
}

func newExplained(t *testing.T) *explained {
	e := &explained{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	e.Store = memory.New(memory.Config{Now: func() time.Time { return e.now }})
	return e
}

func (e *explained) check(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *explained) append(ms ...pawl.Message) {
	e.Helper()
	for i := range ms {
		ms[i].Topic = "t"
	}
	_, err := e.Append(e.Context(), store.NewBatch(ms...))
	e.check(err)
}

// announce lets workers say what they are at.
func (e *explained) announce(topics ...roster.Topic) {
	e.Helper()
	for i, t := range topics {
		said, err := json.Marshal(roster.Registration{Topics: []roster.Topic{t}})
		e.check(err)
		_, err = e.PutState(e.Context(), fmt.Sprint(roster.Prefix, "worker-", i+1), said, store.AnyVersion, "")
		e.check(err)
	}
}

func (e *explained) claim(lease store.Lease) pawl.Delivery {
	e.Helper()
	lease.Owner, lease.For = "worker-1", 10*time.Second
	ds, err := e.Claim(e.Context(), []store.Want{{Topic: "t", Limit: 1}}, lease)
	e.check(err)
	if len(ds) != 1 {
		e.Fatalf("%d deliveries", len(ds))
	}
	return ds[0]
}

// rescued lets so many leases of the one message that is there end.
func (e *explained) rescued(times int) {
	e.Helper()
	for range times {
		e.claim(store.Lease{Suspects: store.MaxSuspects})
		e.now = e.now.Add(time.Minute)
	}
}

func (e *explained) settle(s store.Settlement) {
	e.Helper()
	d := e.claim(store.Lease{})
	s.Token, s.ID = d.Token, d.ID
	refused, err := e.Settle(e.Context(), store.NewBatch(s))
	if e.check(err); len(refused) > 0 {
		e.Fatal(refused[0].Err)
	}
}

// situation is what brings message x somewhere, and what is to be said of it then.
type situation struct {
	name    string
	prepare func(e *explained)
	state   store.State
	want    string // the situation
	why     []string
	next    string
	blocked string
}

var oneKey = []byte("k")

var situations = []situation{
	{"ready", func(e *explained) { e.append(pawl.Message{ID: "x"}) },
		store.Waiting, SituationReady, []string{"waits for a worker with room", "1 waiting"}, "claims it", ""},
	{"behind one that is worked on", func(e *explained) {
		e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
		e.claim(store.Lease{})
	}, store.Waiting, SituationBehind, []string{"before it is a", "worker-1 works on"}, "when that one is done", "a"},
	{"behind one that is repeated", func(e *explained) {
		e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
		e.settle(store.Settlement{Verdict: store.Retry, After: time.Minute,
			Failure: store.Failure{Error: "no", Rule: "default"}})
	}, store.Waiting, SituationBehind, []string{"failed and is retried at 2026-03-01 12:01:00"},
		"when that one is done", "a"},
	{"behind one that waits", func(e *explained) {
		e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "later", Key: oneKey, Delay: time.Hour},
			pawl.Message{ID: "x", Key: oneKey})
	}, store.Waiting, SituationBehind, []string{"before it is a, which waits, too"}, "when that one is done", "a"},
	{"behind one of a worse priority", func(e *explained) {
		e.append(pawl.Message{ID: "a", Key: oneKey})
		e.now = e.now.Add(time.Second)
		e.append(pawl.Message{ID: "x", Key: oneKey, Priority: 100})
	}, store.Waiting, SituationBehind, []string{"before it is a"}, "when that one is done", "a"},
	{"behind what came before it was replayed", func(e *explained) {
		e.append(pawl.Message{ID: "x", Key: oneKey})
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken"}})
		e.now = e.now.Add(time.Second)
		e.append(pawl.Message{ID: "a", Key: oneKey})
		e.now = e.now.Add(time.Second)
		_, err := e.Replay(e.Context(), "", "x")
		e.check(err)
	}, store.Waiting, SituationBehind, []string{"before it is a"}, "when that one is done", "a"},
	{"before a delayed one of its key", func(e *explained) {
		e.append(pawl.Message{ID: "later", Key: oneKey, Delay: time.Hour}, pawl.Message{ID: "x", Key: oneKey})
	}, store.Waiting, SituationReady, nil, "claims it", ""},
	{"held", func(e *explained) {
		e.append(pawl.Message{ID: "a", Key: oneKey}, pawl.Message{ID: "x", Key: oneKey})
		e.settle(store.Settlement{Verdict: store.Ack, Hold: time.Minute})
	}, store.Delayed, SituationHeld, []string{"closed until 2026-03-01 12:01:00"}, "it is claimable", ""},
	{"paused", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.check(e.Pause(e.Context(), "t", 0, "ann", "the mail server moves"))
	}, store.Waiting, SituationPaused, []string{"ann paused its topic: the mail server moves"},
		"pawl topics resume t", ""},
	{"paused for a time", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.check(e.Pause(e.Context(), "t", time.Hour, "ann", ""))
	}, store.Waiting, SituationPaused, []string{"ann paused its topic"}, "the topic goes on", ""},
	{"delayed", func(e *explained) { e.append(pawl.Message{ID: "x", Delay: time.Hour}) },
		store.Delayed, SituationDelayed, []string{"appended for 2026-03-01 13:00:00"}, "it is claimable", ""},
	{"given back", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Release, After: time.Minute, Failure: store.Failure{Error: "not now"}})
	}, store.Delayed, SituationDelayed, []string{"gave it back", "not now", "does not count as an attempt"},
		"it is claimable", ""},
	{"limited", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.announce(roster.Topic{Topic: "t", LimitedBy: "mailhost"})
	}, store.Waiting, SituationLimited, []string{`limit "mailhost" holds its topic back in worker-1`},
		"when the limit allows", ""},
	{"not limited everywhere", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.announce(roster.Topic{Topic: "t", LimitedBy: "mailhost"}, roster.Topic{Topic: "t"})
	}, store.Waiting, SituationReady, []string{"nothing is in its way"}, "claims it", ""},
	{"sent away by a limit", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Release, After: time.Minute,
			Failure: store.Failure{Error: store.LimitedBy("tenants")}})
	}, store.Delayed, SituationLimited, []string{`limit "tenants" lets it begin at 2026-03-01 12:01:00`},
		"it is claimable", ""},
	{"leased", func(e *explained) { e.append(pawl.Message{ID: "x"}); e.claim(store.Lease{}) },
		store.Leased, SituationLeased, []string{"worker-1 works on it, attempt 1", "12:00:10"},
		"unless it is settled or extended", ""},
	{"retrying", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Retry, After: time.Minute,
			Failure: store.Failure{Error: "refused", Kind: "Connect", Rule: "default", Action: "retry"}})
	}, store.Delayed, SituationRetrying, []string{"attempt 1 failed (Connect): refused", `rule "default" retries it`},
		"it is claimable", ""},
	{"suspect", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.rescued(2)
		e.announce(roster.Topic{Topic: "t"})
	}, store.Waiting, SituationSuspect, []string{"2 workers died", "a few like it at a time", "2 more"},
		"claims it", ""},
	{"alone", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.rescued(4)
		e.announce(roster.Topic{Topic: "t"})
	}, store.Waiting, SituationSuspect, []string{"4 workers died", "processed alone", "3 more"},
		"the next worker that is idle", ""},
	{"one death", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.rescued(1)
		e.announce(roster.Topic{Topic: "t"})
	}, store.Waiting, SituationReady, []string{"nothing is in its way"}, "claims it", ""},
	{"dead", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken", Kind: "Parser",
			Rule: "Parser/Parser", Action: "dead"}})
	}, store.IsDead, SituationDead, []string{"dead letter (Parser), after 1 failed attempt: broken",
		`rule "Parser/Parser"`}, "to try again: pawl dead replay x", ""},
	{"replayed", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken"}})
		_, err := e.Replay(e.Context(), "", "x")
		e.check(err)
	}, store.Waiting, SituationReplayed, []string{"it was a dead letter", "time 1"}, "claims it", ""},
	{"retained", func(e *explained) {
		_, err := e.Declare(e.Context(), store.Declaration{Name: "t", Retain: new(time.Hour)})
		e.check(err)
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Ack})
	}, store.Acked, SituationRetained, []string{"acked at 2026-03-01 12:00:00"}, "it is removed", ""},
	{"delayed in a paused topic", func(e *explained) {
		e.append(pawl.Message{ID: "x", Delay: time.Hour})
		e.check(e.Pause(e.Context(), "t", 0, "ann", "maintenance"))
	}, store.Delayed, SituationDelayed, []string{"appended for 2026-03-01 13:00:00",
		"ann paused its topic: maintenance"}, "somebody has to resume the topic first: pawl topics resume t", ""},
	{"dead again", func(e *explained) {
		e.append(pawl.Message{ID: "x"})
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken"}})
		_, err := e.Replay(e.Context(), "", "x")
		e.check(err)
		e.settle(store.Settlement{Verdict: store.Dead, Failure: store.Failure{Error: "broken again"}})
	}, store.IsDead, SituationDead, []string{"1 failed attempt, since it was replayed (time 1): broken again"},
		"nothing by itself", ""},
}

// TestExplain brings a message into every situation and asks why it is there.
func TestExplain(t *testing.T) {
	for _, c := range situations {
		t.Run(c.name, func(t *testing.T) {
			e := newExplained(t)
			e.announce(roster.Topic{Topic: "t"})
			c.prepare(e)
			x, err := Explain(t.Context(), e, e, e, "x")
			e.check(err)
			next := x.Next.Action
			if x.State != c.state || x.Situation != c.want || x.BlockedBy != c.blocked ||
				!strings.Contains(next, c.next) || (c.next == "") != (next == "") {
				t.Errorf("%+v, next %q", x, next)
			}
			for _, want := range c.why {
				if !strings.Contains(x.Why, want) {
					t.Errorf("why %q; want %q in it", x.Why, want)
				}
			}
			if x.Since == nil || x.History == nil {
				t.Errorf("since %v, history %v", x.Since, x.History)
			}
		})
	}
}

func TestCounted(t *testing.T) {
	for got, want := range map[string]string{
		Counted(1, "message"): "1 message", Counted(int64(0), "message"): "0 messages",
		Counted(1, "line is", "lines are"): "1 line is", Counted(2, "line is", "lines are"): "2 lines are",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"mail": "mail", "": "''", "a b": "'a b'", "ann's": `'ann'\''s'`,
		"postgres://h/d?x=1": "'postgres://h/d?x=1'", "sqlite:my's.db": `'sqlite:my'\''s.db'`} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestOperands(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a b": {"a", "b"}, "'$(id)' b": {"$(id)", "b"},
		"-- a -x 'b c'": {"a", "-x", "b c"}} {
		if got := Operands(names...); got != want {
			t.Errorf("%q are %s, want %s", names, got, want)
		}
	}
}
