package observe

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds keeps the number of values of labels within limits, whatever kinds and topics
// occur.
type bounds struct {
	mu       sync.RWMutex
	known    map[string]map[string]bool // by label
	overflow *prometheus.CounterVec
}

// other stands for what is beyond the limit, none for what is empty: an empty
// value would be the same as no label.
const (
	other = "other"
	none  = "none"
)

// value returns v, or what stands for it. A kind may be any bytes that a handler put
// together; Prometheus panics at a label that is not UTF-8.
func (b *bounds) value(label, v string) string {
	v = strings.ToValidUTF8(v, "\uFFFD")
	if v == "" {
		return none
	}
	b.mu.RLock()
	ok := b.known[label][v]
	b.mu.RUnlock()
	if ok {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known[label]
	if known == nil {
		known = map[string]bool{}
		b.known[label] = known
	}
	if !known[v] && len(known) >= limits[label] {
		b.overflow.WithLabelValues(label).Inc()
		return other
	}
	known[v] = true
	return v
}

// values does it for the labels of a description.
func (b *bounds) values(d description, vs ...string) []string {
	for i, label := range d.labels {
		vs[i] = b.value(label, vs[i])
	}
	return vs
}
