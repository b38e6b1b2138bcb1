package observe

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collectors gathers what is to be registered while it is made.
type collectors []prometheus.Collector

func (c *collectors) counter(d description) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
	*c = append(*c, v)
	return v
}

func (c *collectors) gauge(d description) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
	*c = append(*c, v)
	return v
}

func (c *collectors) histogram(d description, buckets []float64) *histogram {
	h := &histogram{desc: d.desc(), buckets: buckets, series: map[string]*series{}}
	*c = append(*c, h)
	return h
}

// scraped adds a gauge that read sets when it is scraped.
func (c *collectors) scraped(d description, read func(setter)) {
	*c = append(*c, scraped{d.desc(), read})
}

// setter takes the value of a metric, once for each combination of label values.
type setter = func(value float64, labels ...string)

type scraped struct {
	desc *prometheus.Desc
	read func(setter)
}

// Describe implements prometheus.Collector.
func (s scraped) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s scraped) Collect(ch chan<- prometheus.Metric) {
	s.read(func(value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, labels...)
	})
}

// growth turns totals that are told again and again into what they have grown by.
type growth struct {
	mu   sync.Mutex
	told map[string]int64
}

// of is by how much a total has grown since it was last told; 0 if it fell.
func (g *growth) of(name string, total int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told == nil {
		g.told = map[string]int64{}
	}
	grown := total - g.told[name]
	g.told[name] = total
	return float64(max(grown, 0))
}

// histogram takes many durations at once, under one lock: what is observed for
// every message must cost next to nothing.
type histogram struct {
	desc    *prometheus.Desc
	buckets []float64
	mu      sync.Mutex
	series  map[string]*series // by the value of its only label
}

// series is durations by upper bounds, which are seconds.
type series struct {
	counts []uint64 // by bound; the last one is for what is above all
	sum    float64
}

func newSeries(bounds []float64) *series { return &series{counts: make([]uint64, len(bounds)+1)} }

func (s *series) add(bounds []float64, took time.Duration) {
	v := took.Seconds()
	s.counts[sort.SearchFloat64s(bounds, v)]++
	s.sum += v
}

// metric is the series as Prometheus takes it.
func (s *series) metric(desc *prometheus.Desc, bounds []float64, labels ...string) (prometheus.Metric, error) {
	cumulated, below := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range s.counts {
		if below += n; i < len(bounds) {
			cumulated[bounds[i]] = below
		}
	}
	return prometheus.NewConstHistogram(desc, below, s.sum, cumulated, labels...)
}

func (h *histogram) observe(label string, times ...time.Duration) {
	if len(times) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.series[label]
	if s == nil {
		s = newSeries(h.buckets)
		h.series[label] = s
	}
	for _, t := range times {
		s.add(h.buckets, t)
	}
}

// counted are the observations so far, by label and bound.
func (h *histogram) counted() map[string][]uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string][]uint64, len(h.series))
	for label, s := range h.series {
		all[label] = slices.Clone(s.counts)
	}
	return all
}

// Describe implements prometheus.Collector.
func (h *histogram) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

// Collect implements prometheus.Collector.
func (h *histogram) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for label, s := range h.series {
		send(ch, h.desc)(s.metric(h.desc, h.buckets, label))
	}
}

// send passes on a metric, or why it cannot be made.
func send(ch chan<- prometheus.Metric, desc *prometheus.Desc) func(prometheus.Metric, error) {
	return func(m prometheus.Metric, err error) {
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- m
	}
}
