package observe

import (
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram takes many durations at once, under one lock: what is observed for
// every message must cost next to nothing.
type histogram struct {
	desc    *prometheus.Desc
	buckets []float64
	mu      sync.Mutex
	series  map[string]*series // by the value of its only label
}

type series struct {
	counts []uint64 // by bucket; the last one is for what is above all
	sum    float64
	count  uint64
}

func newHistogram(d description, buckets []float64) *histogram {
	return &histogram{desc: d.desc(), buckets: buckets, series: map[string]*series{}}
}

func (h *histogram) observe(label string, times ...time.Duration) {
	if len(times) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.series[label]
	if s == nil {
		s = &series{counts: make([]uint64, len(h.buckets)+1)}
		h.series[label] = s
	}
	for _, t := range times {
		v := t.Seconds()
		s.counts[sort.SearchFloat64s(h.buckets, v)]++
		s.sum += v
	}
	s.count += uint64(len(times))
}

// Describe implements prometheus.Collector.
func (h *histogram) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

// Collect implements prometheus.Collector.
func (h *histogram) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for label, s := range h.series {
		cumulated, below := make(map[float64]uint64, len(h.buckets)), uint64(0)
		for i, bound := range h.buckets {
			below += s.counts[i]
			cumulated[bound] = below
		}
		ch <- prometheus.MustNewConstHistogram(h.desc, s.count, s.sum, cumulated, label)
	}
}
