package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/observe/figures"
)

// Metric is a metric of a pipeline, or of the process around the runtime. Exactly one of Gauge, Total, Counter,
// Durations and Sizes is set. Several pipelines of one kind have metrics of one name: they differ in the value of a
// label.
type Metric struct {
	Name   string // such as outbox_items_total
	Help   string // one sentence
	Labels []string
	// Gauge is called at every scrape and must be quick: it calls set once for each combination of label values.
	Gauge func(set setter)
	// Total is like Gauge, of a value that only grows.
	Total func(set func(value float64, labels ...string))
	// Counter has totals, Durations a histogram.
	Counter   *Counter
	Durations *Durations
	// Sizes is a histogram of the batches of sinks of the log, read at every scrape.
	Sizes func(set func(sink figures.LogSink, labels ...string))
}

// maxSeries bounds the combinations of label values of one counter or histogram. What comes beyond is counted under
// "other".
const maxSeries = 500

// Counter counts events by the values of its labels. The zero value is ready; it is safe for concurrent use.
type Counter struct {
	mu     sync.Mutex
	totals map[string]float64
}

// Add adds n under these values of the labels.
func (c *Counter) Add(n float64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals == nil {
		c.totals = map[string]float64{}
	}
	c.totals[seriesKey(labels, len(c.totals), func(k string) bool { _, ok := c.totals[k]; return ok })] += n
}

// Durations is a histogram of durations, by the values of its labels. The zero value is ready; it is safe for
// concurrent use.
type Durations struct {
	mu     sync.Mutex
	series map[string]*series
}

// Observe records a duration.
func (d *Durations) Observe(took time.Duration, labels ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.series == nil {
		d.series = map[string]*series{}
	}
	key := seriesKey(labels, len(d.series), func(k string) bool { return d.series[k] != nil })
	if d.series[key] == nil {
		d.series[key] = newSeries(workBuckets)
	}
	d.series[key].add(workBuckets, took)
}

// seriesKey joins label values, within the bound on their number.
func seriesKey(labels []string, have int, known func(string) bool) string {
	clean := make([]string, len(labels))
	for i, l := range labels {
		clean[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	key := strings.Join(clean, "\xff")
	if have >= maxSeries && !known(key) {
		for i := range clean {
			clean[i] = "other"
		}
		return strings.Join(clean, "\xff")
	}
	return key
}

// Register exports metrics.
func Register(reg prometheus.Registerer, metrics ...Metric) error {
	for _, m := range metrics {
		for _, o := range metrics {
			if o.Name == m.Name && !slices.Equal(o.Labels, m.Labels) {
				return fmt.Errorf("metric %s has labels %v and %v", m.Name, m.Labels, o.Labels)
			}
		}
	}
	return reg.Register(pipelineMetrics(metrics))
}

// pipelineMetrics is an unchecked collector: its series are known when they are gathered.
type pipelineMetrics []Metric

// Describe implements prometheus.Collector.
func (pipelineMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (ms pipelineMetrics) Collect(ch chan<- prometheus.Metric) {
	for i := range ms {
		ms[i].collect(ch)
	}
}

func (m *Metric) collect(ch chan<- prometheus.Metric) {
	desc := prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	send := send(ch, desc)
	switch {
	case m.Gauge != nil:
		m.Gauge(func(v float64, labels ...string) {
			send(prometheus.NewConstMetric(desc, prometheus.GaugeValue, v, labels...))
		})
	case m.Total != nil:
		m.Total(func(v float64, labels ...string) {
			send(prometheus.NewConstMetric(desc, prometheus.CounterValue, v, labels...))
		})
	case m.Sizes != nil:
		m.Sizes(func(sink figures.LogSink, labels ...string) {
			s := series{counts: sink.Batches[:], sum: float64(sink.Written)}
			send(s.metric(desc, figures.LogBatchBounds[:], labels...))
		})
	case m.Counter != nil:
		m.Counter.mu.Lock()
		totals := maps.Clone(m.Counter.totals)
		m.Counter.mu.Unlock()
		for key, v := range totals {
			send(prometheus.NewConstMetric(desc, prometheus.CounterValue, v, m.values(key)...))
		}
	case m.Durations != nil:
		m.Durations.mu.Lock()
		defer m.Durations.mu.Unlock()
		for key, s := range m.Durations.series {
			send(s.metric(desc, workBuckets, m.values(key)...))
		}
	}
}

func (m *Metric) values(key string) []string {
	if len(m.Labels) == 0 {
		return nil
	}
	return strings.Split(key, "\xff")
}
