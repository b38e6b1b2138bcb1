package project

import (
	"time"

	"github.com/pawl-dev/pawl/observe"
)

// figures are counted in this process.
type figures struct {
	items, errors, dead observe.Counter
	bulk                observe.Durations
}

// metrics have the names that operators of outboxes expect.
func (f *figures) metrics(p *projection) []observe.Metric {
	gauge := func(name, help string, value func(outboxState) float64) observe.Metric {
		return observe.Metric{Name: name, Help: help, Labels: []string{"projection"},
			Gauge: func(set func(float64, ...string)) {
				p.mu.Lock()
				s := p.pulse.standing
				if p.success.After(s.success) {
					s.success = p.success
				}
				p.mu.Unlock()
				set(value(s), p.projection)
			}}
	}
	return []observe.Metric{
		gauge("outbox_inflight_events", "Changes that a process holds.", func(s outboxState) float64 {
			return float64(s.processing)
		}),
		gauge("outbox_oldest_age_seconds", "How long ago the oldest change that is not in the index was inserted.",
			func(s outboxState) float64 {
				return s.oldest.Seconds()
			}),
		gauge("outbox_stuck_processing_events",
			"Changes whose lease is over, or that were held for longer than max_processing_seconds.",
			func(s outboxState) float64 {
				return float64(s.stuck)
			}),
		gauge("outbox_last_success_timestamp_seconds", "When a change last reached the index; 0 is never.",
			func(s outboxState) float64 {
				if s.success.IsZero() {
					return 0
				}
				return float64(s.success.UnixNano()) / float64(time.Second)
			}),
		gauge("outbox_lag_rows", "Changes that are not in the index yet, but for dead letters.",
			func(s outboxState) float64 {
				return float64(s.pending + s.processing)
			}),
		gauge("outbox_dead_letters", "Dead letters that are not resolved.", func(s outboxState) float64 {
			return float64(s.failed)
		}),
		{Name: "outbox_items_total", Help: "Items of bulk requests by result: ok, stale or error.",
			Labels: []string{"projection", "result"}, Counter: &f.items},
		{Name: "outbox_item_errors_total", Help: "Items of bulk requests that failed, by class.",
			Labels: []string{"projection", "class"}, Counter: &f.errors},
		{Name: "dead_letter_outbox_total", Help: "Changes that became dead letters, by class.",
			Labels: []string{"projection", "class"}, Counter: &f.dead},
		{Name: "outbox_bulk_duration_seconds", Help: "How long bulk requests took.", Labels: []string{"projection"},
			Durations: &f.bulk},
	}
}
