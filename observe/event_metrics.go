package observe

import "github.com/prometheus/client_golang/prometheus"

// eventMetrics are the metrics of the event bus.
type eventMetrics struct {
	emitted, dropped, refused *prometheus.CounterVec
	lag                       *lags
}

func newEventMetrics() eventMetrics {
	return eventMetrics{counter(events), counter(eventsDropped), counter(eventsRefused), newLags(eventsLag)}
}

// Consume counts an event: m is a [Consumer].
func (m *Metrics) Consume(e Envelope) error {
	m.events.emitted.WithLabelValues(m.bounds.values(events, e.Domain, e.Type, e.Phase)...).Inc()
	return nil
}

// EventDropped counts an event that a consumer did not get.
func (m *Metrics) EventDropped(consumer, reason string) {
	m.events.dropped.WithLabelValues(m.bounds.values(eventsDropped, consumer, reason)...).Inc()
}

// EventRefused counts an event that the bus refused.
func (m *Metrics) EventRefused(reason string) {
	m.events.refused.WithLabelValues(m.bounds.values(eventsRefused, reason)...).Inc()
}
