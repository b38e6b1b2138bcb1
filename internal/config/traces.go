package config

import "strings"

// Traces says where traces go.
type Traces struct {
	OTLP     string // empty: nowhere, unless the environment says where
	Protocol string // http or grpc
	Sample   float64
	Headers  map[string]string
	Link     string // a template, with {trace_id}
}

func tracesField() field {
	fields := []field{
		{name: "otlp", doc: "The collector that they are sent to. The variable `OTEL_EXPORTER_OTLP_ENDPOINT` overrides it.",
			defDoc: "off",
			shape:  shape{kind: text, noun: nounURL, sensitive: true, check: checkURL}},
		{name: "protocol", doc: "How they are sent.", def: "http", shape: oneOf("http", "grpc")},
		{name: "sample", doc: "The share of traces that is always exported. What failed, died, was replayed or took longer " +
			"than its topic's `objective` is exported anyway.",
			def: "0.01", shape: shape{kind: number64}},
		{name: "headers", doc: "Headers of the requests to the collector.",
			shape: shape{kind: table, checkKey: checkHeaderName, noun: "mapping by name",
				of: &shape{kind: text, sensitive: true, check: checkHeaderValue}}},
		{name: "link", doc: "Where people see a trace: a URL with `{trace_id}` in it, for `pawl explain` and `pawl dead show`.",
			defDoc: "none", shape: shape{kind: text, noun: nounURL, check: checkTraceLink}},
	}
	return field{name: "traces", doc: "Spans of messages, over OTLP; docs/traces.md explains them. The variables of OpenTelemetry (`OTEL_…`) override these keys.",
		shape: shape{kind: object, fields: fields}}
}

func checkTraceLink(s string) (why, hint string) {
	const such = "such as https://traces.example.com/trace/{trace_id}"
	if !strings.Contains(s, "{trace_id}") {
		return "must contain {trace_id}", such
	}
	if why, _ = checkURL(strings.ReplaceAll(s, "{trace_id}", "0")); why != "" {
		return why, such
	}
	return "", ""
}

// bindTraces gives the values of traces their types.
func bindTraces(n *node) Traces {
	if n == nil {
		return Traces{Sample: 0.01}
	}
	return Traces{OTLP: get[string](n, "otlp"), Protocol: get[string](n, "protocol"), Sample: get[float64](n, "sample"),
		Link: get[string](n, "link"), Headers: n.at("headers").byName()}
}

// checkTraces finds a share that is none.
func (w *walker) checkTraces(root *node) {
	n := root.at("traces")
	if n == nil || n.bad {
		return
	}
	if share, ok := find[float64](n, "sample"); ok && share > 1 {
		w.refuse(n.at("sample"), "0.01 is one in a hundred, 1 is all", "must be from 0 to 1 (got %v)", share)
	}
}
