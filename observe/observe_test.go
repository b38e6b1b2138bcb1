package observe

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/observe/figures"
)

func metrics(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := New(reg)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// touch tells m something of everything, with text in every place that takes text.
func touch(m *Metrics, text string) {
	m.StoreCall(text, time.Millisecond, 3, nil)
	m.StoreCall(text, time.Millisecond, 0, errors.New("down"))
	m.Claimed(text, 2, []time.Duration{time.Second, 2 * time.Second})
	m.Ran(text, []time.Duration{time.Millisecond})
	m.Settled(text, text, 1, []time.Duration{time.Second})
	m.Refused(text, text, 1)
	m.GivenBack(text, 1)
	m.Decided(text, text, text, text, pawl.Kind(text), text, text, text, text)
	m.Decided(text, text, text, text, pawl.Kind(text), text, "ignore", text, text)
	_ = m.Consume(Envelope{Domain: text, Type: text, Phase: text})
	m.EventDropped(text, text)
	m.EventRefused(text)
	m.Load(text, 1, 2, 3, 4)
	m.Depth(text, 1, 2, 3, 4, time.Minute)
	m.DepthCounted(text, time.Now())
	m.LimitLoad(text, 1, 2, 3, 4, 1, 5)
	m.Spill(someSpill(text), true)
	m.SpillCounted(time.Now())
	m.WatchKafka(func() figures.Kafka { return someKafka(text) })
	m.Reloaded(true, time.Now())
}

func gather(t testing.TB, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*dto.MetricFamily{}
	for _, f := range families {
		by[f.GetName()] = f
	}
	return by
}

// Whatever is thrown at it, a label has a bounded number of values: ids, keys
// and addresses end as "other".
func TestLabelsAreBounded(t *testing.T) {
	m, reg := metrics(t)
	for i := range 5000 {
		touch(m, fmt.Sprintf("https://example.com/%d", i))
	}
	families := gather(t, reg)
	if len(families) < 15 {
		t.Fatalf("only %d families: the test misses some", len(families))
	}
	for name, f := range families {
		values := map[string]map[string]bool{}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
			}
		}
		for label, vs := range values {
			limit, known := limits[label]
			if !known || limit > 200 || len(vs) > limit+2 { // other and none
				t.Errorf("%s: label %s has %d values, limit %d", name, label, len(vs), limit)
			}
		}
		if len(f.GetMetric()) > 5000 {
			t.Errorf("%s has %d series", name, len(f.GetMetric()))
		}
	}
	if families["pawl_metrics_label_overflow_total"] == nil {
		t.Error("nobody is told of the overflow")
	}
}

// A handler may make a kind of any bytes, and two of them may mean the same text.
func TestLabelsAreText(t *testing.T) {
	m, reg := metrics(t)
	touch(m, "a\xffb")
	touch(m, "a\xfeb")
	for name, f := range gather(t, reg) {
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				if l.GetValue() != strings.ToValidUTF8(l.GetValue(), "") {
					t.Errorf("%s: label %s is %q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
	if f := gather(t, reg)["policy_decisions_total"]; len(f.GetMetric()) != 2 {
		t.Errorf("%v", f) // those that are ignored, and the others
	}
}

// No label may be added whose name promises one value per message.
func TestNoLabelForData(t *testing.T) {
	for label := range limits {
		for _, bad := range []string{"id", "key", "url", "uri", "host", "path", "trace", "token", "error", "message"} {
			if label == bad || strings.HasSuffix(label, "_"+bad) {
				t.Errorf("label %s", label)
			}
		}
	}
}

func TestNamesAreWellFormed(t *testing.T) {
	m, reg := metrics(t)
	touch(m, "a")
	for _, f := range gather(t, reg) {
		if !strings.HasPrefix(f.GetName(), "pawl_") && f.GetName() != "policy_decisions_total" {
			t.Errorf("%s has no prefix", f.GetName())
		}
		problems, err := promlint.NewWithMetricFamilies([]*dto.MetricFamily{f}).Lint()
		if err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	}
}

func TestFigures(t *testing.T) {
	m, reg := metrics(t)
	m.Claimed("a", 5, []time.Duration{3 * time.Millisecond, time.Hour})
	m.Claimed("a", 1, nil)
	m.Settled("a", "ack", 7, nil)
	m.Decided("a", "Engine", "Download", "Failed", "", "default", "retry", "warn", "none")
	m.Decided("a", "Engine", "DataStore", "Failed", "Orm", "DataStore/Orm", "ignore", "error", "carry-on")
	m.Depth("a", 3, 0, 0, 9, 90*time.Second)
	m.Load("a", 1, 0, 0, 8)
	m.Load("a", 2, 0, 0, 8)
	m.LimitLoad("a", 3, 1, 50, 2.5, 0, 7)
	m.LimitLoad("a", 4, 1, 50, 2.5, 0.5, 9)
	recorder := httptest.NewRecorder()
	Handler(reg).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	text := recorder.Body.String()
	for _, want := range []string{
		`pawl_deliveries_claimed_total{topic="a"} 6`,
		`pawl_queue_wait_seconds_bucket{topic="a",le="0.001"} 0`,
		`pawl_queue_wait_seconds_bucket{topic="a",le="0.005"} 1`,
		`pawl_queue_wait_seconds_bucket{topic="a",le="1800"} 1`,
		`pawl_queue_wait_seconds_bucket{topic="a",le="7200"} 2`,
		`pawl_queue_wait_seconds_count{topic="a"} 2`,
		`pawl_queue_wait_seconds_sum{topic="a"} 3600.003`,
		`pawl_deliveries_settled_total{topic="a",verdict="ack"} 7`,
		`policy_decisions_total{action="retry",alert="warn",domain="Engine",kind="none",phase="Failed",type="Download"} 1`,
		`pawl_failures_ignored_total{degrade="carry-on",topic="a"} 1`,
		`pawl_queue_messages{state="dead",topic="a"} 9`,
		`pawl_queue_oldest_age_seconds{topic="a"} 90`,
		`pawl_handlers_running{topic="a"} 2`,
		`pawl_limit_running{limit="a"} 4`,
		`pawl_limit_rate_per_second{limit="a"} 50`,
		`pawl_limit_window{limit="a"} 2.5`,
		`pawl_limit_window_least{limit="a"} 0.5`,
		`pawl_limit_held_back_total{limit="a"} 9`,
	} {
		if !slices.Contains(strings.Split(text, "\n"), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestRegisterTwiceIsAnError(t *testing.T) {
	_, reg := metrics(t)
	if _, err := New(reg); err == nil {
		t.Fatal("no error")
	}
}

func BenchmarkThousandDeliveries(b *testing.B) {
	m, _ := metrics(b)
	times := slices.Repeat([]time.Duration{time.Millisecond}, 1000)
	for b.Loop() {
		m.Claimed("a", 1000, times)
		m.Ran("a", times)
		m.Settled("a", "ack", 1000, times)
	}
}

// Only topics with an objective have a count of what took longer.
func TestSlowDeliveriesAreCounted(t *testing.T) {
	m, reg := metrics(t)
	m.Objectives(func(topic string) time.Duration { return map[string]time.Duration{"a": time.Second}[topic] })
	took := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}
	m.Settled("a", "ack", 3, took)
	m.Settled("b", "ack", 3, took)
	all := gather(t, reg)["pawl_deliveries_slow_total"].GetMetric()
	if len(all) != 1 || all[0].GetCounter().GetValue() != 2 {
		t.Errorf("counted as slow: %v", all)
	}
}
