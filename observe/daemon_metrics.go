package observe

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/observe/figures"
)

// The metrics of this file are read from a daemon at every scrape.

// Logs are the metrics of the sinks of the log, and of the output of programs.
func Logs(sinks func() []figures.LogSink) []Metric {
	const sink = "sink"
	return []Metric{
		{Name: "log_emits_total", Labels: []string{sink, "level"},
			Help: "Records of the log that a sink was offered, and writes of programs to stdout and stderr. They were written (the sum of log_batch_size), dropped, or wait.",
			Total: func(set func(float64, ...string)) {
				for _, s := range sinks() {
					for level, n := range s.Emits {
						set(float64(n), s.Name, level)
					}
				}
			}},
		{Name: "log_dropped_total", Labels: []string{sink, labelReason},
			Help: "Records that a sink dropped, by reason: full (its queue), failed (its output), or closed (the end did not wait).",
			Total: func(set func(float64, ...string)) {
				for _, s := range sinks() {
					for _, reason := range []string{"full", "failed", "closed"} { // rates need those that are 0
						set(float64(s.Dropped[reason]), s.Name, reason)
					}
				}
			}},
		{Name: "log_queue_lag", Labels: []string{sink},
			Help: "Records that wait for a sink, or are being written.",
			Gauge: func(set func(float64, ...string)) {
				for _, s := range sinks() {
					set(float64(s.Lag), s.Name)
				}
			}},
		{Name: "log_batch_size", Labels: []string{sink}, Help: "Records that a sink wrote at once.",
			Sizes: func(set func(figures.LogSink, ...string)) {
				for _, s := range sinks() {
					set(s, s.Name)
				}
			}},
	}
}

// ProgramRestarts is the metric of kept programs that ended and were started again.
func ProgramRestarts(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_program_restarts_total", Labels: []string{labelTopic, labelReason}, Total: total,
		Help: "Programs of the handler pipe that were started again, by how the one before ended: left (exit status 0 after an answer), crashed, or killed because a delivery's time was over or it did not answer.",
	}
}

// State are the metrics of values of the shared state that a process did not take over.
func State(total, now func(set func(value float64, labels ...string))) []Metric {
	const stateTopic = "state_topic"
	return []Metric{{
		Name: "pawl_state_ignored_total", Labels: []string{stateTopic, labelReason}, Total: total,
		Help: "Versions of values in the state that this process did not take over: stale (older than what it has), poisoned (they cannot be decoded), refused (they can, and are not allowed here), skipped (a newer one was there).",
	}, {
		Name: "pawl_state_ignored_values", Labels: []string{stateTopic}, Gauge: now,
		Help: "Values in the state that this process ignores now, because they cannot be decoded or are refused; what was in effect before them stays.",
	}}
}

// ProgramLines is the metric of lines of kept programs that are not verdicts as they should be.
func ProgramLines(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_program_odd_lines_total", Labels: []string{labelTopic, labelReason}, Total: total,
		Help: "Lines that programs of the handler pipe wrote to stdout, by what is odd about them: log (no verdict, taken for the program's log), broken (a verdict that cannot be read; its delivery failed), stale (for a delivery that the program does not hold), unknown_member (a verdict that counts, with a member that does not).",
	}
}

// TraceSpans is the metric of spans, by result.
func TraceSpans(total func(set func(value float64, labels ...string))) Metric {
	return Metric{
		Name: "pawl_trace_spans_total", Labels: []string{labelResult}, Total: total,
		Help: "Spans of traces: made, exported, and failed to be exported. The others wait, or were dropped because too many waited.",
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
