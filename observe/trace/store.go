package trace

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Store returns s with a span "send TOPIC" for each message that is appended, and "settle TOPIC" for each attempt of
// topics that [Tracer.Topics] returned. What is appended in a transaction of the caller, or by a function of the
// database, has the trace that its headers name.
func (t *Tracer) Store(s store.Store) store.Store {
	if t == nil {
		return s
	}
	return &traced{s, t}
}

type traced struct {
	store.Store
	t *Tracer
}

// Unwrap returns the store behind it.
func (s *traced) Unwrap() store.Store { return s.Store }

// Append implements [store.Store].
func (s *traced) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	items := slices.Clone(b.Items)
	above := trace.SpanContextFromContext(ctx)
	for i := range items {
		s.t.stamp(&items[i], above, b.ID, i)
	}
	start := time.Now()
	receipts, err := s.Store.Append(ctx, store.Batch[pawl.Message]{ID: b.ID, Items: items})
	s.t.sent(items, receipts, err, start)
	return receipts, err
}

// stamp gives a message the context of its send, below what its headers name, or else the context of the caller. The
// ids follow from those of the call: a repetition has the same.
func (t *Tracer) stamp(m *pawl.Message, above trace.SpanContext, call string, i int) {
	parent := contextOf(m.Headers)
	if !parent.IsValid() {
		parent = above
	}
	parent = unmarked(parent)
	if call == "" {
		call = pawl.NewID()
	}
	sc := parent.WithSpanID(spanOf(call, opSend, i))
	if !parent.IsValid() {
		id := traceOf(spanOf(call, "trace", i).String())
		sc = sc.WithTraceID(id).WithTraceFlags(t.flags(id))
	}
	m.Headers, _ = withContext(m.Headers, asSend(sc, parent))
}

// failedSends is how many failures of one call are exported that nobody asked for.
const failedSends = 10

// sent exports the sends that were sampled, and the first that failed.
func (t *Tracer) sent(items []pawl.Message, receipts []store.Receipt, err error, start time.Time) {
	end, failures := time.Now(), 0
	answers := store.Answers(len(items), receipts, err)
	for i := range items {
		sc := contextOf(items[i].Headers)
		parent, ours := sendOf(sc)
		why := ""
		if answers[i].Err != nil {
			failures++
			why = answers[i].Err.Error()
		}
		if ours && (sc.IsSampled() || why != "" && failures <= failedSends) {
			t.export(sendSpan(sc, parent, items[i].Topic, answers[i].ID, len(items[i].Body), start, end, why))
		}
	}
}

func sendSpan(sc, parent trace.SpanContext, topic, id string, size int, start, end time.Time, why string) *span {
	s := &span{name: opSend + " " + topic, kind: trace.SpanKindProducer, context: sc, parent: parent, start: start,
		end: end, attrs: append(about(opSend, topic, id), attrSize.Int(size)), failed: why}
	if why != "" {
		s.attrs = append(s.attrs, attrError.String("append"))
	}
	return s
}

// about are the attributes that all our spans have.
func about(op, topic, id string) []attribute.KeyValue {
	return []attribute.KeyValue{attrSystem.String(system), attrOperation.String(op), attrType.String(operationType(op)),
		attrDestination.String(topic), attrMessage.String(id)}
}

// Settle implements [store.Store].
func (s *traced) Settle(ctx context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	items := slices.Clone(b.Items)
	for i := range items {
		st := &items[i]
		st.Emit = slices.Clone(st.Emit)
		for j := range st.Emit {
			s.t.stamp(&st.Emit[j], trace.SpanContext{}, st.ID, j)
		}
	}
	start := time.Now()
	refused, err := s.Store.Settle(ctx, store.Batch[store.Settlement]{ID: b.ID, Items: items})
	if err != nil {
		return refused, err // it is repeated, or the lease is given up
	}
	end := time.Now()
	why := make(map[int]error, len(refused))
	for _, r := range refused {
		why[r.Index] = r.Err
	}
	for i := range items {
		st := &items[i]
		if a := s.t.take(st.Token); a != nil {
			a.settled(st, why[i], start, end)
		}
		for j := range st.Emit {
			m := &st.Emit[j]
			sc := contextOf(m.Headers)
			if parent, ours := sendOf(sc); ours && sc.IsSampled() && why[i] == nil {
				s.t.export(sendSpan(sc, parent, m.Topic, pawl.EmitID(st.ID, j), len(m.Body), start, end, ""))
			}
		}
	}
	return refused, nil
}
