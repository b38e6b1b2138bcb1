package logs

import (
	"context"
	"log/slog"
	"slices"

	"github.com/pawl-dev/pawl/observe"
)

// handler is a slog.Handler over a Log. Attributes that a logger carries are encoded once.
type handler struct {
	log        *Log
	group      string // with a dot at its end
	text, json []byte
	not        *queue // the sink that does not get the records
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	for _, q := range h.log.queues {
		if level >= q.level.Level() {
			return true
		}
	}
	return false
}

// Handle implements slog.Handler. It never waits for a sink, and its error is nil.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	e := h.log.encoders.Get().(*encoder)
	e.begin(&r)
	e.text, e.json = append(e.text, h.text...), append(e.json, h.json...)
	r.Attrs(func(a slog.Attr) bool {
		e.attr(h.group, a)
		return true
	})
	if redact := h.log.redact; redact != nil {
		e.text, e.json = append(e.text[:0], redact(string(e.text))...), append(e.json[:0], redact(string(e.json))...)
	}
	h.log.put(e, r.Level, h.not)
	h.log.encoders.Put(e)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	e := h.log.newEncoder()
	for _, a := range attrs {
		e.attr(h.group, a)
	}
	next := *h
	next.text, next.json = slices.Concat(h.text, e.text), slices.Concat(h.json, e.json)
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.group += name + "."
	}
	return &next
}

// withNode begins a logger whose records name the process, in the forms that have that.
func (l *Log) withNode(node string) *handler {
	h := &handler{log: l}
	e := l.newEncoder()
	e.asText.on, e.asJSON.on = e.asText.on && e.asText.node, e.asJSON.on && e.asJSON.node
	e.asText.node, e.asJSON.node = false, false
	if node != "" {
		e.attr("", slog.String(observe.NodeID, node))
	}
	h.text, h.json = e.text, e.json
	return h
}
