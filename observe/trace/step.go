package trace

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

type groupKey struct{}

// maxSteps bounds the steps of one call of a handler, and so the memory for a decision that is still to come.
const maxSteps = 100

// Step is a part of what a handler does: a request, a query. nil is none.
type Step struct {
	group *group
	span  span
}

// Start begins a step in a handler whose topic is traced, with the kind of a client; anywhere else it does nothing.
// It is exported if its attempt is.
func Start(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, *Step) {
	g, _ := ctx.Value(groupKey{}).(*group)
	if g == nil {
		return ctx, nil
	}
	parent := trace.SpanContextFromContext(ctx)
	s := &Step{g, span{name: name, kind: trace.SpanKindClient, parent: parent, context: sibling(parent, randomSpan()),
		start: time.Now(), attrs: attributes(attrs)}}
	for i, a := range g.attempts {
		if i > 0 {
			s.span.links = append(s.span.links, link(a.process))
		}
	}
	return trace.ContextWithSpanContext(ctx, s.span.context), s
}

// End ends a step, which failed unless err is nil.
func (s *Step) End(err error, attrs ...slog.Attr) {
	if s == nil {
		return
	}
	s.span.end = time.Now()
	s.span.attrs = append(s.span.attrs, attributes(attrs)...)
	if err != nil {
		s.span.failed = err.Error()
		s.span.attrs = append(s.span.attrs, attrError.String("error"))
	}
	g := s.group
	g.mu.Lock()
	kept := g.kept
	if !kept && len(g.steps) < maxSteps {
		g.steps = append(g.steps, &s.span)
	}
	g.mu.Unlock()
	if kept {
		g.t.export(&s.span)
	}
}

func attributes(attrs []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			all = append(all, attribute.Int64(a.Key, v.Int64()))
		case slog.KindFloat64:
			all = append(all, attribute.Float64(a.Key, v.Float64()))
		case slog.KindBool:
			all = append(all, attribute.Bool(a.Key, v.Bool()))
		default:
			all = append(all, attribute.String(a.Key, v.String()))
		}
	}
	return all
}
