package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// storeFailing is for how long every call of the store has failed. It is read when it is scraped: during an outage
// calls become rare, and each of them takes long.
type storeFailing struct {
	mu    sync.Mutex
	since time.Time // of the first failure behind the last success; zero: the last call succeeded
}

func (f *storeFailing) note(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !failed:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = time.Now()
	}
}

func (f *storeFailing) seconds() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return 0
	}
	return time.Since(f.since).Seconds()
}

// Describe implements prometheus.Collector.
func (f *storeFailing) Describe(ch chan<- *prometheus.Desc) { ch <- failing.desc() }

// Collect implements prometheus.Collector.
func (f *storeFailing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(failing.desc(), prometheus.GaugeValue, f.seconds())
}
