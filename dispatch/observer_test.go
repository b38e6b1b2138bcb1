package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// witness is an observer that remembers sums.
type witness struct {
	mu    sync.Mutex
	n     map[string]int
	times map[string][]time.Duration
}

func (w *witness) add(what string, n int, times ...time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n == nil {
		w.n, w.times = map[string]int{}, map[string][]time.Duration{}
	}
	w.n[what] += n
	w.times[what] = append(w.times[what], times...)
}

func (w *witness) StoreCall(op string, _ time.Duration, items int, err error) {
	w.add("call "+op, items)
}

func (w *witness) Claimed(topic string, n int, waited []time.Duration) {
	w.add("claimed "+topic, n, waited...)
}

func (w *witness) Ran(topic string, took []time.Duration) { w.add("ran "+topic, len(took), took...) }

func (w *witness) RanKeys(topic string, keys [][]byte, took []time.Duration) {
	for i, key := range keys {
		w.add(fmt.Sprintf("ran %s of %q", topic, key), 1, took[i])
	}
}

func (w *witness) Settled(topic, verdict string, n int, done []time.Duration) {
	w.add("settled "+topic+" "+verdict, n, done...)
}

func (w *witness) Refused(topic, reason string, n int) { w.add("refused "+topic+" "+reason, n) }

func (w *witness) Decided(topic, domain, typ, phase string, kind pawl.Kind, rule, action, alert, degrade string) {
	w.add(strings.Join([]string{"decided", topic, domain, typ, phase, string(kind), rule, action, alert, degrade}, " "),
		1)
}

func (w *witness) Load(topic string, running, waiting, zombies, slots int) {
	w.add("load "+topic, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n["running"] = running
}

func TestObserverIsTold(t *testing.T) {
	bubble(t, func(r *rig) {
		var w witness
		r.store.stale("a-4")
		r.append(numbered("a", 5)...)
		time.Sleep(time.Second)
		c := one(5, func(_ context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				return nil
			}
			time.Sleep(2 * time.Second)
			switch d.ID {
			case "a-1":
				if d.Attempt == 1 {
					return pawl.OfKind("Download", errBroken)
				}
			case "a-2":
				return pawl.Permanent(errBroken)
			case "a-3":
				return pawl.Release(time.Hour, "later")
			}
			return nil
		})
		c.Observer = &w
		c.Topics[0].Event = policy.Event{Domain: "Engine", Type: "Download"}
		r.run(c)
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, n := range map[string]int{
			"claimed a": 7, "ran a": 7, "settled a ack": 3, "settled a retry": 1, "settled a dead": 1,
			"settled a release":    1,
			"refused a lease_lost": 1, "call settle": 7, "call claim": 7,
			"decided a Engine Download Failed Download Download/Download retry warn none": 1,
			"decided a Engine Download Failed  default dead warn none":                    1,
		} {
			if w.n[what] != n {
				t.Errorf("%s: %d, want %d", what, w.n[what], n)
			}
		}
		equal(r, w.times["claimed a"], slices.Repeat([]time.Duration{time.Second}, 5)) // of first attempts
		equal(r, w.times["settled a ack"][0], 3*time.Second)                           // from visible to done
		equal(r, w.times["ran a"][0], 2*time.Second)
		if w.n["load a"] < 3 || w.n["running"] != 0 {
			t.Errorf("the load was told %d times, %d run at last", w.n["load a"], w.n["running"])
		}
	})
}

// touchy is an observer that cannot bear what handlers put into their errors.
type touchy struct{ witness }

func (*touchy) Decided(_, _, _, _ string, kind pawl.Kind, _, _, _, _ string) {
	panic(fmt.Sprintf("%q is no label", kind))
}

// An observer that panics about a failure costs a figure, not the process.
func TestObserverThatPanics(t *testing.T) {
	bubble(t, func(r *rig) {
		var log logged
		var s sink
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Attempt == 1 {
				return pawl.OfKind("\xff", errBroken)
			}
			return nil
		})
		c.Observer, c.Events, c.Logger = &touchy{}, &s, log.logger()
		r.run(c)
		time.Sleep(time.Hour)
		r.gone("x")
		equal(r, []int{log.count("observer panicked"), log.count("delivery failed")}, []int{1, 1})
		equal(r, s.list("x"),
			"Engine/TaskModel/Started 1, Engine/TaskModel/Failed 1 broken: retry, Engine/TaskModel/Started 2, Engine/TaskModel/Completed 2")
	})
}

// TestObserverIsToldOfKeys: every attempt has the key of its message, also of those
// that are claimed in one go, and of those that fail.
func TestObserverIsToldOfKeys(t *testing.T) {
	bubble(t, func(r *rig) {
		var w witness
		ms := append(numbered("a", 6), numbered("b", 3)...)
		for i := range ms {
			ms[i].Topic = "a"
			if i < 6 {
				ms[i].Key = []byte{"xy"[i%2]}
			}
		}
		r.append(ms...)
		c := one(5, func(_ context.Context, d *pawl.Delivery) error {
			if string(d.Key) == "x" {
				time.Sleep(2 * time.Second)
			}
			if d.ID == "a-1" && d.Attempt == 1 {
				return pawl.OfKind("Download", errBroken)
			}
			return nil
		})
		c.Observer = &w
		r.run(c)
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, n := range map[string]int{`ran a of "x"`: 3, `ran a of "y"`: 4, `ran a of ""`: 3, "ran a": 10} {
			if w.n[what] != n {
				t.Errorf("%s: %d, want %d", what, w.n[what], n)
			}
		}
		equal(r, w.times[`ran a of "x"`], slices.Repeat([]time.Duration{2 * time.Second}, 3))
		equal(r, w.times[`ran a of "y"`], slices.Repeat([]time.Duration{0}, 4))
	})
}

func TestRateAndTotals(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 1000)...)
		r.run(one(4, func(context.Context, *pawl.Delivery) error { time.Sleep(100 * time.Millisecond); return nil }))
		time.Sleep(20*time.Second + 500*time.Millisecond)
		s := r.d.Snapshot().Topics[0]
		equal(r, s.Rate, 40.0)
		equal(r, s.Mean, 100*time.Millisecond)
		time.Sleep(time.Minute)
		s = r.d.Snapshot().Topics[0]
		equal(r, []any{s.Rate, s.Acked}, []any{0.0, 1000})
	})
}

// Failures are logged with the fixed field names, a few a second at most.
func TestFailuresAreLogged(t *testing.T) {
	bubble(t, func(r *rig) {
		var text logged
		msgs := numbered("a", 100)
		msgs[0].Headers = map[string]string{"traceparent": trace}
		r.append(msgs...)
		c := one(1, func(context.Context, *pawl.Delivery) error {
			return pawl.Permanent(pawl.OfKind("Parser", errBroken))
		})
		c.Logger, c.Owner = text.logger(), "node-1"
		c.Topics[0].Event = policy.Event{Domain: "Engine", Type: "Parser"}
		r.run(c)
		time.Sleep(2 * time.Second)
		r.append(numbered("b", 1)...)
		r.append(pawl.Message{Topic: "a", ID: "last"})
		time.Sleep(time.Second)
		equal(r, text.count("delivery failed"), 11)
		for _, want := range []string{
			"level=ERROR", "task_id=a-0", "queue_topic=a", "error=broken", "error_kind=Parser", "event_type=Parser",
			"phase=Failed",
			"policy.action=dead", "policy.rule=Parser/Parser",
			`policy.reason="permanent: no retry would help: dead letter"`,
			"retry.count=1", "retry.max=0", "node_id=node-1", "trace_id=0af7651916cd43dd8448eb211c80319c",
			"task_id=last", "not_logged=90",
		} {
			if text.count(want) == 0 {
				t.Errorf("%q is not logged", want)
			}
		}
	})
}

// What succeeds is not logged.
func TestSuccessIsSilent(t *testing.T) {
	bubble(t, func(r *rig) {
		var text logged
		r.append(numbered("a", 100)...)
		c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
		c.Logger = text.logger()
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		equal(r, text.text.String(), "")
	})
}
