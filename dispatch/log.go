package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// guardedLog keeps the process alive when the log panics: only a line is lost.
type guardedLog struct{ slog.Handler }

func (g guardedLog) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return g.Handler.Handle(ctx, r)
}

// failureLog bounds how often something of a topic is logged: after the first ones
// of a span of time the others are only counted, and said at the next one.
type failureLog struct {
	span   int64 // the number of the second, or whatever they are counted in
	logged int
	silent int
}

// failuresLogged is how many failures of a topic are logged in a second.
const failuresLogged = 10

// Level is the level of an alert in the log. Critical is above the levels that slog
// names.
func Level(a policy.Alert) slog.Level {
	switch a {
	case policy.Warn:
		return slog.LevelWarn
	case policy.Error:
		return slog.LevelError
	case policy.Critical:
		return slog.LevelError + 4
	default:
		return slog.LevelInfo
	}
}

// allow reports whether it may be logged, as one of so many in a span, and how many were
// not before it.
func (f *failureLog) allow(now, span time.Duration, most int) (silent int, ok bool) {
	if s := int64(now/span) + 1; s != f.span {
		f.span, f.logged = s, 0
	}
	if f.logged >= most {
		f.silent++
		return 0, false
	}
	f.logged++
	silent, f.silent = f.silent, 0
	return silent, true
}

// logFailure logs a failure at the level that was decided. The delivery is nil for a
// part of a batch.
func (d *events) logFailure(t *topic, del *pawl.Delivery, a *policy.Attempt, decision *policy.Decision) {
	level := Level(decision.Alert)
	d.mu.Lock()
	silent, ok := t.failures.allow(d.engine.now(), time.Second, failuresLogged)
	d.mu.Unlock()
	if !ok || !d.cfg.Logger.Enabled(d.base, level) {
		return
	}
	text, _, _ := strings.Cut(store.Text(a.Err.Error()), "\n") // the stack of a panic is in the attempt's record
	attrs := []slog.Attr{
		slog.String("queue_topic", t.Name), slog.String("error", text),
		slog.String("error_kind", string(pawl.Describe(a.Err).Kind)),
		slog.String("policy.action", decision.Action.String()), slog.String("policy.rule", decision.Rule),
		slog.String("policy.reason", decision.Reason),
		slog.Int("retry.count", a.Number), slog.Int("retry.max", decision.MaxAttempts),
		slog.String("node_id", d.cfg.Owner),
	}
	if e := decision.Event; e.Type != "" {
		attrs = append(attrs, slog.String("event_type", e.Type), slog.String("phase", e.Phase))
	}
	if decision.Degrade != policy.NoDegrade {
		attrs = append(attrs, slog.String("policy.degrade", decision.Degrade.String()))
	}
	d.cfg.Logger.LogAttrs(d.base, level, "delivery failed", append(attrs, about(del, silent)...)...)
}

// about are the attributes of a delivery, which may be nil, and of how many like it were
// not logged.
func about(del *pawl.Delivery, silent int) (attrs []slog.Attr) {
	if del != nil {
		attrs = append(attrs, slog.String("task_id", del.ID))
		if trace := traceID(del.Headers[TraceParent]); trace != "" {
			attrs = append(attrs, slog.String("trace_id", trace))
		}
	}
	if silent > 0 {
		attrs = append(attrs, slog.Int("not_logged", silent))
	}
	return attrs
}

// traceID is the trace id in a traceparent: version-traceid-parentid-flags.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// logRefused logs settlements that changed nothing, batch by batch.
func (d *events) logRefused(batch settlements, refused []store.Refusal) {
	if len(refused) == 0 || d.io.Err() != nil {
		return
	}
	first := refused[0]
	level := slog.LevelWarn
	if !errors.Is(first.Err, pawl.ErrLeaseLost) {
		level = slog.LevelError
	}
	st, t := &batch.items[first.Index], batch.outs[first.Index].run.topic
	d.cfg.Logger.LogAttrs(context.Background(), level, "settlements refused", slog.Int("count", len(refused)),
		slog.String("task_id", st.ID), slog.String("queue_topic", t.Name), slog.Any("error", first.Err),
		slog.String("node_id", d.cfg.Owner))
}
