package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl/observe"
)

// span is a span that is over, or an event or step before it is known whether it is exported.
type span struct {
	name       string
	kind       trace.SpanKind
	context    trace.SpanContext
	parent     trace.SpanContext // may be none
	start, end time.Time
	attrs      []attribute.KeyValue
	links      []trace.Link
	events     []event
	failed     string // why; empty: it did not fail
}

type event struct {
	name  string
	at    time.Time
	attrs []attribute.KeyValue
}

// export hands a span to the exporter, which does not block.
func (t *Tracer) export(s *span) {
	t.made.Add(1)
	ctx := context.WithValue(context.Background(), chosenKey{}, s.context)
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.parent)
	}
	_, out := t.tracer.Start(ctx, s.name, trace.WithSpanKind(s.kind), trace.WithTimestamp(s.start),
		trace.WithAttributes(s.attrs...), trace.WithLinks(s.links...))
	for _, e := range s.events {
		out.AddEvent(e.name, trace.WithTimestamp(e.at), trace.WithAttributes(e.attrs...))
	}
	if s.failed != "" {
		out.SetStatus(codes.Error, s.failed)
	}
	out.End(trace.WithTimestamp(s.end))
}

// chosenIDs are ids that were chosen before the span was made.
type chosenIDs struct{}

type chosenKey struct{}

func (chosenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	sc, _ := ctx.Value(chosenKey{}).(trace.SpanContext)
	return sc.TraceID(), sc.SpanID()
}

func (chosenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	sc, _ := ctx.Value(chosenKey{}).(trace.SpanContext)
	return sc.SpanID()
}

// randomSpan is an id that nobody has to find again.
func randomSpan() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// spanOf is the id of the span for one event in the life of a message: other processes compute it, too.
func spanOf(message, what string, numbers ...int) (id trace.SpanID) {
	text := append([]byte(message), 0)
	text = append(text, what...)
	for _, n := range numbers {
		text = strconv.AppendInt(append(text, ' '), int64(n), 10)
	}
	sum := sha256.Sum256(text)
	copy(id[:], sum[:])
	return id
}

// traceOf is the trace of a message that came without one.
func traceOf(message string) trace.TraceID {
	id, _ := trace.TraceIDFromHex(observe.TraceOf(message))
	return id
}

// flags are those of a trace that begins here.
func (t *Tracer) flags(id trace.TraceID) trace.TraceFlags {
	if t.all || binary.BigEndian.Uint64(id[8:])>>1 < t.bound { // as TraceIDRatioBased of the SDK
		return trace.FlagsSampled
	}
	return 0
}

func link(sc trace.SpanContext) trace.Link { return trace.Link{SpanContext: sc} }

// sibling is the context of another span of the same trace.
func sibling(sc trace.SpanContext, id trace.SpanID) trace.SpanContext { return sc.WithSpanID(id) }
