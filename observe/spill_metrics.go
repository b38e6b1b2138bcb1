package observe

import (
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
}

func newSpillMetrics(c *collectors) spillMetrics {
	return spillMetrics{
		messages: c.counter(spillMessages), compensated: c.counter(spillCompensated),
		failures: c.counter(spillFailures),
		blind:    c.counter(spillBlind),
		pending:  c.gauge(spillPending), dead: c.gauge(spillDead), oldest: c.gauge(spillOldest),
		down:    c.gauge(spillDown),
		latched: c.gauge(spillLatched), at: c.gauge(spillAt),
	}
}

// Spill records the figures of a store with a fallback. They are counted in the
// fallback store periodically, not for a scrape. Figures that were not counted now keep
// their last values.
func (m *Metrics) Spill(f figures.Spill, counted bool) {
	s := &m.spill
	s.latched.WithLabelValues().Set(float64(f.LatchedKeys))
	s.blind.WithLabelValues().Add(m.grown.of("spill blind", f.Blind))
	for i := range f.Topics {
		t := &f.Topics[i]
		topic := m.bounds.value(labelTopic, t.Topic)
		for where, n := range map[string]int64{"fallback": t.SpilledFailed + t.SpilledUnknown, "diverted": t.Diverted,
			"lost": t.Lost} {
			s.messages.WithLabelValues(topic, where).Add(m.grown.of("spill "+where+" "+t.Topic, n))
		}
		s.compensated.WithLabelValues(topic).Add(m.grown.of("spill compensated "+t.Topic, t.Compensated))
		s.failures.WithLabelValues(topic).Add(m.grown.of("spill failures "+t.Topic, t.CompensationsFailed))
		s.down.WithLabelValues(topic).Set(one(t.Down))
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
