package observe

import "github.com/prometheus/client_golang/prometheus"

// The metrics of limiters.
var (
	limitRunning = description{"pawl_limit_running",
		"Handlers that run now and count towards a limit.", []string{labelLimit}}
	limitRate = description{"pawl_limit_rate_per_second",
		"How many handlers a limit lets begin a second; 0 is no bound.", []string{labelLimit}}
	limitWindow = description{"pawl_limit_window",
		"How many handlers an adaptive limit allows at once now, in all of its buckets; 0 is not adaptive.",
		[]string{labelLimit}}
	limitLeast = description{"pawl_limit_window_least",
		"The same in the bucket of an adaptive limit that allows the least, of those that hold messages back; 0 is none.",
		[]string{labelLimit}}
	limitHeldBack = description{"pawl_limit_held_back_total",
		"Messages that a limit kept from beginning when it was their turn.", []string{labelLimit}}
)

type limitMetrics struct {
	running, rate, window, least *prometheus.GaugeVec
	heldBack                     *prometheus.CounterVec
}

func newLimitMetrics(c *collectors) limitMetrics {
	return limitMetrics{
		running: c.gauge(limitRunning), rate: c.gauge(limitRate), window: c.gauge(limitWindow),
		least: c.gauge(limitLeast), heldBack: c.counter(limitHeldBack),
	}
}

// LimitLoad records the state of a limiter.
func (m *Metrics) LimitLoad(limit string, running, _ int, rate, window, least float64, heldBack int64) {
	l := &m.limits
	more := m.grown.of("held back "+limit, heldBack)
	limit = m.bounds.value(labelLimit, limit)
	l.running.WithLabelValues(limit).Set(float64(running))
	l.rate.WithLabelValues(limit).Set(rate)
	l.window.WithLabelValues(limit).Set(window)
	l.least.WithLabelValues(limit).Set(least)
	l.heldBack.WithLabelValues(limit).Add(more)
}
