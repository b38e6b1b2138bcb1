package observe

import (
	"sync"
	"time"
)

// The metrics of this file are read from a daemon at every scrape.

// LogDropped is the metric of lines of logs and programs that were dropped, by sink and reason: full, because the
// reader is slow, or failed.
func LogDropped(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_log_dropped_total", Labels: []string{"sink", "reason"}, Total: total,
		Help: "Writes of logs and programs that were dropped, by sink (stdout, stderr) and reason: full, because the reader is slow, or failed.",
	}
}

// ProgramRestarts is the metric of kept programs that ended and were started again.
func ProgramRestarts(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_program_restarts_total", Labels: []string{labelTopic, labelReason}, Total: total,
		Help: "Programs of the handler pipe that were started again, by how the one before ended: left (exit status 0 after an answer), crashed, or killed because a delivery's time was over or it did not answer.",
	}
}

// ProgramLines is the metric of lines of kept programs that are not verdicts as they should be.
func ProgramLines(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_program_odd_lines_total", Labels: []string{labelTopic, labelReason}, Total: total,
		Help: "Lines that programs of the handler pipe wrote to stdout, by what is odd about them: log (no verdict, taken for the program's log), broken (a verdict that cannot be read; its delivery failed), stale (for a delivery that the program does not hold), unknown_member (a verdict that counts, with a member that does not).",
	}
}

// HandlersLate is the metric of handlers that are near their deadline.
func HandlersLate(gauge func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_handlers_late", Labels: []string{labelTopic}, Gauge: gauge,
		Help: "Handlers that run now and have used up more than half of the time until their deadline.",
	}
}

// Schedules are the metrics of schedules. A process has them of what it fired itself.
type Schedules struct {
	Ticks Counter   // by schedule and action
	Lag   Durations // from due to sent, of ticks that were not missed

	mu   sync.Mutex
	last map[string]time.Time
}

// Fired notes when a message of a schedule was sent.
func (s *Schedules) Fired(schedule string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]time.Time{}
	}
	if _, known := s.last[schedule]; known || len(s.last) < maxSeries {
		s.last[schedule] = at
	}
}

// Metrics are for the registry. overdue is the age of the oldest tick that is due and not dealt with.
func (s *Schedules) Metrics(overdue func() time.Duration) []Metric {
	return []Metric{
		{Name: "pawl_schedule_ticks_total", Labels: []string{"schedule", labelAction}, Counter: &s.Ticks,
			Help: "Ticks of schedules, by what became of them: fired, made_up, missed or skipped."},
		{Name: "pawl_schedule_firing_lag_seconds", Durations: &s.Lag,
			Help: "From the time of a tick to when its message was sent, of ticks that were not missed."},
		{Name: "pawl_schedule_last_success_timestamp_seconds", Labels: []string{"schedule"},
			Help: "When this process last sent a message of a schedule.",
			Gauge: func(set func(float64, ...string)) {
				s.mu.Lock()
				defer s.mu.Unlock()
				for name, at := range s.last {
					set(seconds(at), name)
				}
			}},
		{Name: "pawl_schedules_overdue_seconds",
			Help:  "How old the first tick is since which a schedule stands still in the process that fires; 0 if none does.",
			Gauge: func(set func(float64, ...string)) { set(overdue().Seconds()) }},
	}
}
