package observe

// Consume counts an event: m is a [Consumer].
func (m *Metrics) Consume(e Envelope) error {
	m.eventsEmitted.WithLabelValues(m.bounds.values(events, e.Domain, e.Type, e.Phase)...).Inc()
	return nil
}

// EventDropped counts an event that a consumer did not get.
func (m *Metrics) EventDropped(consumer, reason string) {
	m.eventsDropped.WithLabelValues(m.bounds.values(eventsDropped, consumer, reason)...).Inc()
}

// EventRefused counts an event that the bus refused.
func (m *Metrics) EventRefused(reason string) {
	m.eventsRefused.WithLabelValues(m.bounds.values(eventsRefused, reason)...).Inc()
}
