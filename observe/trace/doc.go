// Package trace follows messages from their sender to each of their attempts, and exports that over OTLP. The context
// of a message (W3C Trace Context) is in its headers, so it goes through every store:
//
//	t, err := trace.New(ctx, trace.Config{OTLP: "http://127.0.0.1:4318", Sample: 0.01})
//	s = t.Store(s) // spans "send TOPIC" and "settle TOPIC"
//	d, err := dispatch.New(s, dispatch.Config{Topics: t.Topics(topics, nil), …}) // spans "process TOPIC"
//
// Nothing is exported before the end of an attempt is known. What failed, died, was replayed or took longer than the
// objective of its topic is always exported, and so is its send; of everything else, the share that Sample states.
// Spans of a message have ids that follow from its own, so that an attempt can be linked to what came before it in
// another process. A nil [Tracer] does nothing, and costs nothing.
package trace
