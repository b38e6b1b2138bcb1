package logs_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/logs"
)

// BenchmarkRecord is a record with ten fields, in both forms, to sinks that take everything.
func BenchmarkRecord(b *testing.B) {
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "text", Output: logs.NewNull()},
		{Name: "json", JSON: true, Output: logs.NewNull()}}})
	defer log.Close()
	l := slog.New(log.Handler()).With(observe.Module, "bench", observe.QueueTopic, "mail")
	b.ReportAllocs()
	for b.Loop() {
		l.LogAttrs(b.Context(), slog.LevelInfo, "the download is done", slog.String(observe.Phase, "Completed"),
			slog.String(observe.TaskID, "worker-1"), slog.String(observe.TraceID, "4bf92f3577b34da6a3ce929d0e0e4736"),
			slog.Int(observe.RetryCount, 1), slog.Int(observe.RetryMax, 10), slog.Duration("took", time.Millisecond))
	}
}
