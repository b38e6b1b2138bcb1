package cli

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/trace"
)

// trace begins to trace what is sent and carried out, if the configuration or the environment names a collector.
func (s *session) trace(ctx context.Context, c *config.Config, logger *slog.Logger) (err error) {
	if s.tracer != nil {
		return nil
	}
	t := &c.Traces
	s.tracer, err = trace.New(ctx, trace.Config{OTLP: t.OTLP, Protocol: t.Protocol, Sample: t.Sample, Headers: t.Headers,
		Version: s.version, Node: serve.Owner(c.Node, time.Now()), Getenv: s.Getenv, Logger: logger})
	if err != nil {
		return &problem{code: exitUsage, what: "cannot trace", err: err,
			next: "correct traces: in the configuration file, or the variables OTEL_…"}
	}
	return nil
}

// endTraces exports what is left.
func (s *session) endTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.tracer.Close(ctx); err != nil {
		s.note("the last traces were not exported: %v", err)
	}
}

// findTrace says where the trace of a message is, if the configuration file does.
func (s *session) findTrace(t *operate.Trace, id string) error {
	c, err := s.loadFile("traces")
	if err != nil {
		return err
	}
	if t.TraceID == "" && c.Traces.OTLP != "" {
		t.TraceID = observe.TraceOf(id)
	}
	t.TraceURL = observe.TraceLink(c.Traces.Link, t.TraceID)
	return nil
}

func describeTrace(w io.Writer, t *operate.Trace) { field(w, "trace", cmp.Or(t.TraceURL, t.TraceID)) }
