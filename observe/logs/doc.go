// Package logs is the way of log records from slog to where they are written: one handler, and behind it a bounded
// queue for each sink. A call never waits for a sink. A sink that blocks or fails costs only itself: what its queue
// cannot hold is dropped and counted, and the sink writes one record about it when it can again.
//
//	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "console", Output: logs.NewConsole(os.Stderr, nil)}}})
//	logger := slog.New(log.Handler())
//	defer log.Close()
//
// Records have numbers, seq, without gaps as they were offered. For every sink the records offered are those written,
// those dropped and those that still wait, at any time; [Log.Figures] has the counts.
package logs
