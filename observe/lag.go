package observe

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// lags reads the lag of the consumers when it is scraped.
type lags struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	of   map[string]func() float64 // by consumer
}

func newLags(d description) *lags {
	return &lags{desc: d.desc(), of: map[string]func() float64{}}
}

func (l *lags) add(consumer string, read func() float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[consumer] = read
}

// Describe implements prometheus.Collector.
func (l *lags) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l *lags) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for consumer, read := range l.of {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, read(), consumer)
	}
}
