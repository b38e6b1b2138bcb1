package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// readiness is checked at every scrape: 0 until there is a check.
type readiness struct{ ask atomic.Pointer[func() bool] }

// Describe implements prometheus.Collector.
func (r *readiness) Describe(ch chan<- *prometheus.Desc) { ch <- ready.desc() }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(ch chan<- prometheus.Metric) {
	ask := r.ask.Load()
	ch <- prometheus.MustNewConstMetric(ready.desc(), prometheus.GaugeValue, one(ask != nil && (*ask)()))
}
