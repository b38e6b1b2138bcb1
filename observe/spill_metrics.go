package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/observe/figures"
)

// The metrics of a store with a fallback.
var (
	spillMessages = description{"pawl_spill_messages_total",
		"Messages that this process could not store in their own store, by where they went: fallback, diverted to the dead letters, or lost.",
		[]string{labelTopic, labelResult}}
	spillCompensated = description{"pawl_spill_compensated_total",
		"Messages that were brought back from the fallback store.", []string{labelTopic}}
	spillFailures = description{"pawl_spill_compensation_failures_total",
		"Tries to bring a message of the fallback store back that failed.", []string{labelTopic}}
	spillPending = description{"pawl_spill_pending_messages",
		"Messages in the fallback store that wait to be brought back, of all processes. Counted on a slow clock.",
		[]string{labelTopic}}
	spillDead = description{"pawl_spill_dead_messages",
		"Messages in the fallback store that failed too often, and wait for an operator. Counted on a slow clock.",
		[]string{labelTopic}}
	spillOldest = description{"pawl_spill_oldest_pending_age_seconds",
		"For how long the oldest message has been waiting in the fallback store. Measured on a slow clock.",
		[]string{labelTopic}}
	spillAt = description{"pawl_spill_counted_timestamp_seconds",
		"When the messages in the fallback store were last counted. What is older than a minute is left out of the other figures about them. At first: when counting began.",
		nil}
	spillDown = description{"pawl_spill_down",
		"1 while this process cannot store messages of the topic in their own store.",
		[]string{labelTopic}}
	spillLatched = description{"pawl_spill_latched_keys",
		"Keys whose new messages queue behind those in the fallback store.", nil}
	spillBlind = description{"pawl_spill_blind_total",
		"Appends that could not find out what other processes have in the fallback store.", nil}
)

type spillMetrics struct {
	messages, compensated, failures, blind   *prometheus.CounterVec
	pending, dead, oldest, down, latched, at *prometheus.GaugeVec

	mu   sync.Mutex
	told map[string]int64 // totals as last told
}

func newSpillMetrics() *spillMetrics {
	return &spillMetrics{
		messages: counter(spillMessages), compensated: counter(spillCompensated), failures: counter(spillFailures),
		blind:   counter(spillBlind),
		pending: gauge(spillPending), dead: gauge(spillDead), oldest: gauge(spillOldest), down: gauge(spillDown),
		latched: gauge(spillLatched), at: gauge(spillAt),
		told: map[string]int64{},
	}
}

func (s *spillMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{s.messages, s.compensated, s.failures, s.blind, s.pending, s.dead, s.oldest, s.down,
		s.latched, s.at}
}

// Spill records the figures of a store with a fallback. They are counted in the
// fallback store periodically, not for a scrape. Figures that were not counted now keep
// their last values.
func (m *Metrics) Spill(f figures.Spill, counted bool) {
	s := m.spill
	s.latched.WithLabelValues().Set(float64(f.LatchedKeys))
	s.blind.WithLabelValues().Add(s.more("blind", f.Blind))
	for i := range f.Topics {
		t := &f.Topics[i]
		topic := m.bounds.value(labelTopic, t.Topic)
		for where, n := range map[string]int64{"fallback": t.SpilledFailed + t.SpilledUnknown, "diverted": t.Diverted,
			"lost": t.Lost} {
			s.messages.WithLabelValues(topic, where).Add(s.more(where+" "+t.Topic, n))
		}
		s.compensated.WithLabelValues(topic).Add(s.more("compensated "+t.Topic, t.Compensated))
		s.failures.WithLabelValues(topic).Add(s.more("failures "+t.Topic, t.CompensationsFailed))
		s.down.WithLabelValues(topic).Set(map[bool]float64{true: 1}[t.Down])
		if !counted {
			continue
		}
		s.pending.WithLabelValues(topic).Set(float64(t.Pending))
		s.dead.WithLabelValues(topic).Set(float64(t.Dead))
		s.oldest.WithLabelValues(topic).Set(t.OldestPending.Seconds())
	}
}

// SpillCounted records when the fallback store was counted.
func (m *Metrics) SpillCounted(at time.Time) { m.spill.at.WithLabelValues().Set(seconds(at)) }

// SpillUnknown withdraws the figures about the fallback store: counting fails. The
// totals of this process stay.
func (m *Metrics) SpillUnknown() {
	for _, g := range []*prometheus.GaugeVec{m.spill.pending, m.spill.dead, m.spill.oldest} {
		g.Reset()
	}
}

// more is by how much a total has grown since it was last told.
func (s *spillMetrics) more(name string, total int64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := total - s.told[name]
	s.told[name] = total
	return float64(max(grown, 0))
}
