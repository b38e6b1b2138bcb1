package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Audit is a [Consumer] that writes every event as a line of JSON. Sequence
// numbers rise from line to line: a gap shows what was dropped, and a return to
// 1 the start of another process. It does not open or sync anything: for a file
// that only grows, open it with O_APPEND.
type Audit struct {
	w    io.Writer
	torn bool // the last line was written only in part
}

// NewAudit returns an audit that writes to w, a line with one call.
func NewAudit(w io.Writer) *Audit { return &Audit{w: w} }

// Consume implements [Consumer].
func (a *Audit) Consume(e Envelope) error {
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	line = append(line, '\n')
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := a.w.Write(line)
	if err != nil {
		a.torn = a.torn && n == 0 || n > 0
		return fmt.Errorf("audit: %w", err)
	}
	a.torn = false
	return nil
}

// LogEvents is a [Consumer] that logs events. System events are logged for people;
// pipeline events at level debug, because the runtime itself logs failures at the level
// that the policy decides.
func LogEvents(l *slog.Logger) Consumer {
	return ConsumerFunc(func(e Envelope) error {
		level := slog.LevelDebug
		switch {
		case e.Domain != DomainSystem:
		case e.Phase == PhaseFailed:
			level = slog.LevelError
		case e.Err != "": // a check that found something unwell
			level = slog.LevelWarn
		default:
			level = slog.LevelInfo
		}
		ctx := context.Background()
		if !l.Enabled(ctx, level) {
			return nil
		}
		attrs := []slog.Attr{slog.String(EventType, e.Type), slog.String(Phase, e.Phase)}
		for _, a := range []slog.Attr{
			slog.String(TaskID, e.MessageID), slog.String(QueueTopic, e.Topic), slog.String(ErrorKind, string(e.Kind)),
			slog.String("error", e.Err), slog.String(TraceID, e.TraceID),
		} {
			if a.Value.String() != "" {
				attrs = append(attrs, a)
			}
		}
		for name, value := range e.Attrs {
			attrs = append(attrs, slog.String(name, value))
		}
		l.LogAttrs(ctx, level, "event", attrs...)
		return nil
	})
}
