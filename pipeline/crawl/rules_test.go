package crawl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/policy"
)

var errBroken = errors.New("broken")

// matrix is the built-in policy with the rows of a crawl.
func matrix(t *testing.T) *policy.Matrix {
	t.Helper()
	m, err := policy.NewMatrix(func() float64 { return 0.5 }, crawl.Rules()...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type backoff struct{ base, max time.Duration }

// matrixRow is a row of the matrix: what it says of the first failure, and of the last.
type matrixRow struct {
	domain, typ string
	phases      []string
	kinds       []pawl.Kind
	facts       policy.Facts
	first, last policy.Action
	backoff     backoff
	alert       policy.Alert
}

// TestMatrix holds every row of the matrix to what it says of a first
// failure, of one that has used up its attempts, and of the facts it names.
func TestMatrix(t *testing.T) {
	const (
		again = policy.Retry
		dead  = policy.Dead
		drop  = policy.Ignore
	)
	exponential := backoff{500 * time.Millisecond, 30 * time.Second}
	download := backoff{500 * time.Millisecond, time.Minute}
	linear := backoff{200 * time.Millisecond, 10 * time.Second}
	both := []string{policy.Failed, "Retry"}
	failed := []string{policy.Failed}
	m := matrix(t)
	for _, row := range []matrixRow{
		{"Engine", "TaskModel", both, []pawl.Kind{"Task", "Module", "CacheService"}, 0, again, dead, exponential,
			policy.Warn},
		{"Engine", "ParserTaskModel", both, []pawl.Kind{"Parser", "ProcessorChain"}, 0, again, dead, exponential,
			policy.Warn},
		{"Engine", "RequestPublish", both, []pawl.Kind{"Queue"}, 0, again, dead, exponential, policy.Warn},
		{"Engine", "RequestMiddleware", failed, []pawl.Kind{"Request", "ProcessorChain"}, 0, dead, dead, backoff{},
			policy.Error},
		{"Engine", "Download", both, []pawl.Kind{"Download", "Proxy", "RateLimit"}, 0, again, dead, download,
			policy.Warn},
		{"Engine", "ResponseMiddleware", failed, []pawl.Kind{"Response", "ProcessorChain"}, 0, dead, dead, backoff{},
			policy.Error},
		{"Engine", "ResponsePublish", both, []pawl.Kind{"Queue"}, 0, again, dead, exponential, policy.Warn},
		{"Engine", "ModuleGenerate", both, []pawl.Kind{"Module", "Task"}, 0, dead, dead, backoff{}, policy.Error},
		{"Engine", "ModuleGenerate", both, []pawl.Kind{"Module", "Task"}, policy.Timeout, again, dead, exponential,
			policy.Error},
		{"Engine", "ModuleGenerate", both, []pawl.Kind{"Module", "Task"}, policy.Connect, again, dead, exponential,
			policy.Error},
		{"Engine", "ModuleGenerate", both, []pawl.Kind{"Module", "Task"}, policy.Timeout | policy.Limit, dead, dead,
			backoff{}, policy.Error},
		{"Engine", "Parser", both, []pawl.Kind{"Parser"}, 0, dead, dead, backoff{}, policy.Error},
		{"Engine", "MiddlewareBefore", failed, []pawl.Kind{"DataMiddleware"}, 0, dead, dead, backoff{}, policy.Warn},
		{"Engine", "MiddlewareBefore", failed, []pawl.Kind{"DataMiddleware"}, policy.Shortage, again, dead, linear,
			policy.Warn},
		{"Engine", "MiddlewareBefore", failed, []pawl.Kind{"DataMiddleware"}, policy.BadInput, drop, drop, backoff{},
			policy.Warn},
		{"Engine", "DataStore", both, []pawl.Kind{"DataStore", "Orm"}, 0, dead, dead, backoff{}, policy.Error},
		{"Engine", "DataStore", both, []pawl.Kind{"DataStore", "Orm"}, policy.Connect, again, dead, linear,
			policy.Error},
		{"Engine", "DataStore", both, []pawl.Kind{"DataStore", "Orm"}, policy.Conflict, drop, drop, backoff{},
			policy.Error},
		{"System", "SystemError", failed, []pawl.Kind{"Service", "Queue", "Own", ""}, 0, drop, drop, backoff{},
			policy.Error},
		{"System", "SystemHealth", []string{"Completed"}, []pawl.Kind{"Service", "CacheService", "Queue"}, 0, drop,
			drop, backoff{}, policy.Warn},
		{"System", "SystemHealth", failed, []pawl.Kind{"Service", "Own", ""}, 0, drop, drop, backoff{}, policy.Error},
		{"Engine", "StateSync", both, []pawl.Kind{"SyncCodec"}, 0, drop, drop, backoff{}, policy.Warn},
		{"Engine", "Own", both, []pawl.Kind{"Command", "DynamicLibrary", "Own", ""}, 0, again, dead, exponential,
			policy.Warn},
	} {
		row.judge(t, m)
	}
}

// judge compares a row with what the matrix decides.
func (row matrixRow) judge(t *testing.T, m *policy.Matrix) {
	t.Helper()
	for _, phase := range row.phases {
		for _, kind := range row.kinds {
			a := policy.Attempt{
				Event: policy.Event{Domain: row.domain, Type: row.typ, Phase: phase}, Number: 1, Facts: row.facts,
				Err: pawl.OfKind(kind, errBroken),
			}
			d := m.Decide(a)
			if d.Action != row.first || d.Alert != row.alert {
				t.Errorf("%s %s %s (%v), first: %+v", row.typ, phase, kind, row.facts, d)
			}
			a.Number = policy.DefaultAttempts
			if d := m.Decide(a); d.Action != row.last || d.Alert != row.alert {
				t.Errorf("%s %s %s (%v), last: %+v", row.typ, phase, kind, row.facts, d)
			}
			if row.first != policy.Retry {
				continue
			}
			_, rule, _ := m.Explain(a)
			if got := (backoff{rule.Backoff.Base, rule.Backoff.Max}); got != row.backoff {
				t.Errorf("%s %s %s: backoff %v, want %v", row.typ, phase, kind, got, row.backoff)
			}
		}
	}
}

// TestDegrade: bad input costs the item, a conflict nothing.
func TestDegrade(t *testing.T) {
	m := matrix(t)
	for _, c := range []struct {
		typ   string
		kind  pawl.Kind
		facts policy.Facts
		want  policy.Degrade
	}{
		{"MiddlewareBefore", "DataMiddleware", policy.BadInput, policy.SkipItem},
		{"DataStore", "Orm", policy.Conflict, policy.CarryOn},
		{"Parser", "Parser", 0, policy.NoDegrade},
		{"MiddlewareBefore", "DataMiddleware", 0, policy.NoDegrade}, // a dead letter is no item left out
		{"DataStore", "Orm", policy.Connect, policy.NoDegrade},      // it is repeated
	} {
		d := m.Decide(policy.Attempt{
			Event: policy.Event{Domain: policy.Engine, Type: c.typ, Phase: policy.Failed}, Number: 1, Facts: c.facts,
			Err: pawl.OfKind(c.kind, errBroken),
		})
		if d.Degrade != c.want {
			t.Errorf("%s: %v, want %v", c.typ, d.Degrade, c.want)
		}
	}
}
