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

// LogDropped is the metric of lines that logs and programs wrote and nobody got, by sink and reason: full, because
// the reader is slow, or failed.
func LogDropped(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_log_dropped_total", Labels: []string{"sink", "reason"}, Total: total,
		Help: "Writes of logs and programs that were dropped, by sink (stdout, stderr) and reason: full, because the reader is slow, or failed.",
	}
}
