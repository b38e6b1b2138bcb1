package trace

import (
	"encoding/hex"
	"maps"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
)

// contextOf reads the context in the headers of a message; invalid if there is none.
func contextOf(headers map[string]string) trace.SpanContext {
	h := headers[dispatch.TraceParent]
	if len(h) < 55 || h[2] != '-' || h[35] != '-' || h[52] != '-' || h[:2] == "ff" || h[:2] == "00" && len(h) > 55 {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(h[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	parent, err := trace.SpanIDFromHex(h[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags, err := hex.DecodeString(h[53:55])
	if err != nil {
		return trace.SpanContext{}
	}
	state, err := trace.ParseTraceState(headers[dispatch.TraceState])
	if err != nil {
		state = trace.TraceState{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: parent, Remote: true, TraceState: state,
		TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled})
}

// withContext returns headers with a context: a copy, because they may be shared. Those of a message that would be too
// large for a store then are returned as they are.
func withContext(headers map[string]string, sc trace.SpanContext) (map[string]string, bool) {
	changed := make(map[string]string, len(headers)+2)
	maps.Copy(changed, headers)
	changed[dispatch.TraceParent] = "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" +
		sc.TraceFlags().String()
	delete(changed, dispatch.TraceState)
	if state := sc.TraceState().String(); state != "" {
		changed[dispatch.TraceState] = state
	}
	m := pawl.Message{Headers: changed}
	if len(changed) > pawl.MaxHeaders || m.Size() > pawl.MaxHeaderLen {
		return headers, false
	}
	return changed, true
}

// sendOf is the send of a message, if it was one of ours: its context, and the span above it, which may be none.
func sendOf(sc trace.SpanContext) (parent trace.SpanContext, ours bool) {
	above := sc.TraceState().Get(stateKey)
	if above == "" {
		return trace.SpanContext{}, false
	}
	id, err := trace.SpanIDFromHex(above)
	if err != nil {
		return trace.SpanContext{}, true
	}
	return sc.WithSpanID(id), true
}

// asSend marks a context as that of a send of ours below parent.
func asSend(sc, parent trace.SpanContext) trace.SpanContext {
	above := "0"
	if parent.IsValid() {
		above = parent.SpanID().String()
	}
	state, err := parent.TraceState().Insert(stateKey, above)
	if err != nil {
		return sc
	}
	return sc.WithTraceState(state)
}

// unmarked is a context without our mark, for what is below a send.
func unmarked(sc trace.SpanContext) trace.SpanContext {
	return sc.WithTraceState(sc.TraceState().Delete(stateKey))
}
