package observe

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/observe/figures"
)

// someKafka are figures with something in every place.
func someKafka(text string) figures.Kafka {
	return figures.Kafka{
		Produced: figures.KafkaProduced{
			Stored: 7, Refused: 2, Unknown: 1, Buffered: 3, BufferedBytes: 99, LeftAtFlush: 5,
			Took: figures.KafkaSpread{Bounds: []float64{0.01, 0.1}, Counts: []uint64{4, 2, 1}, Sum: 3 * time.Second},
		},
		Traffic:  figures.KafkaTraffic{RequestFailures: 6, ProduceFailures: 4},
		Commits:  figures.KafkaCommits{OK: 11, Failed: 12, Bare: 13},
		Assigned: 14, Revoked: 15, Lost: 16, Overlaps: 17, LateAcks: 18, DeadFailures: 19, Faults: 20,
		Topics: []figures.KafkaTopic{{Topic: text, Consumed: 21, Failed: 22, Rescued: 23, Dying: 24,
			TopKeyShare: 0.25}},
		Partitions: []figures.KafkaPartition{{Topic: text, Partition: 3, InHand: 31, Lag: 35, Backlog: 32,
			OldestAge: 33 * time.Second, CommitLag: 34 * time.Second}},
		Retention: []figures.KafkaRetention{{Topic: text, Partition: 3, Messages: 36}},
		Dead:      []figures.KafkaDead{{Topic: text, Kind: text, Written: 41, LastAt: time.UnixMilli(1_500)}},
	}
}

// What the store tells arrives, each figure in its series, and nothing arrives before
// there is a store.
func TestKafkaFigures(t *testing.T) {
	m, reg := metrics(t)
	for name := range gather(t, reg) {
		if strings.HasPrefix(name, "pawl_kafka_") {
			t.Errorf("%s is exported without a store", name)
		}
	}
	m.WatchKafka(func() figures.Kafka { return someKafka("a") })
	recorder := httptest.NewRecorder()
	Handler(reg).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	lines, seen := strings.Split(recorder.Body.String(), "\n"), map[string]bool{}
	for _, want := range []string{
		`pawl_kafka_produced_total{result="stored"} 7`,
		`pawl_kafka_produced_total{result="refused"} 2`,
		`pawl_kafka_produced_total{result="unknown"} 1`,
		`pawl_kafka_produce_duration_seconds_bucket{le="0.01"} 4`,
		`pawl_kafka_produce_duration_seconds_bucket{le="0.1"} 6`,
		`pawl_kafka_produce_duration_seconds_bucket{le="+Inf"} 7`,
		`pawl_kafka_produce_duration_seconds_sum 3`,
		`pawl_kafka_buffered_records 3`,
		`pawl_kafka_buffered_bytes 99`,
		`pawl_kafka_flush_left_records 5`,
		`pawl_kafka_request_failures_total{op="produce"} 4`,
		`pawl_kafka_request_failures_total{op="other"} 2`,
		`pawl_kafka_commits_total{result="ok"} 11`,
		`pawl_kafka_commits_total{result="failed"} 12`,
		`pawl_kafka_commits_bare_total 13`,
		`pawl_kafka_rebalances_total{action="assigned"} 14`,
		`pawl_kafka_rebalances_total{action="revoked"} 15`,
		`pawl_kafka_rebalances_total{action="lost"} 16`,
		`pawl_kafka_overlaps_total 17`,
		`pawl_kafka_late_acks_total 18`,
		`pawl_kafka_dead_letter_failures_total 19`,
		`pawl_kafka_faults 20`,
		`pawl_kafka_consumed_total{topic="a"} 21`,
		`pawl_kafka_processing_errors_total{reason="failed",topic="a"} 22`,
		`pawl_kafka_processing_errors_total{reason="rescued",topic="a"} 23`,
		`pawl_kafka_dead_letters_waiting{topic="a"} 24`,
		`pawl_kafka_dead_letters_top_key_ratio{topic="a"} 0.25`,
		`pawl_kafka_unfinished_messages{partition="3",topic="a"} 31`,
		`pawl_kafka_lag{partition="3",topic="a"} 35`,
		`pawl_kafka_lost_to_retention_total{partition="3",topic="a"} 36`,
		`pawl_kafka_commit_gate_backlog{partition="3",topic="a"} 32`,
		`pawl_kafka_oldest_unfinished_age_seconds{partition="3",topic="a"} 33`,
		`pawl_kafka_commit_lag_seconds{partition="3",topic="a"} 34`,
		`pawl_kafka_dead_letters_total{kind="a",topic="a"} 41`,
		`pawl_kafka_last_dead_letter_timestamp_seconds{kind="a",topic="a"} 1.5`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing: %s", want)
		}
		name, _, _ := strings.Cut(strings.Fields(want)[0], "{")
		for _, suffix := range []string{"_bucket", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		seen[name] = true
	}
	for _, d := range kafkaDescriptions {
		if !seen[d.name] {
			t.Errorf("the test misses %s", d.name)
		}
	}
	if t.Failed() {
		t.Log(recorder.Body.String())
	}
}

// Too many topics, partitions and kinds are folded into one series, whose figures stay
// right; a scrape never fails by it.
func TestKafkaLabelsAreBounded(t *testing.T) {
	m, reg := metrics(t)
	var f figures.Kafka
	for i := range 1000 {
		one := someKafka(fmt.Sprintf("topic%d", i))
		one.Partitions[0].Partition = int32(i)
		one.Partitions[0].Backlog = i
		f.Topics, f.Partitions, f.Dead = append(f.Topics, one.Topics...), append(f.Partitions, one.Partitions...),
			append(f.Dead, one.Dead...)
	}
	m.WatchKafka(func() figures.Kafka { return f })
	families := gather(t, reg)
	consumed := 0.0
	for _, metric := range families["pawl_kafka_consumed_total"].GetMetric() {
		consumed += metric.GetCounter().GetValue()
	}
	if consumed != 21_000 {
		t.Errorf("%v messages, want 21,000", consumed)
	}
	most := 0.0
	for _, metric := range families["pawl_kafka_commit_gate_backlog"].GetMetric() {
		most = max(most, metric.GetGauge().GetValue())
	}
	if most != 999 {
		t.Errorf("the largest backlog is %v, want 999: it must show, whatever its partition", most)
	}
	for name, n := range map[string]int{"pawl_kafka_consumed_total": 201, "pawl_kafka_commit_gate_backlog": 201,
		"pawl_kafka_dead_letters_total": 201} {
		if got := len(families[name].GetMetric()); got > n {
			t.Errorf("%s has %d series, want %d at most", name, got, n)
		}
	}
	if gather(t, reg)["pawl_metrics_label_overflow_total"] == nil { // of the scrape before
		t.Error("nobody is told of the overflow")
	}
}
