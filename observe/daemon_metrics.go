package observe

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
