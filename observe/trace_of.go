package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// TraceOf returns the trace id of a message that came without a trace: whoever knows the message's id finds it.
func TraceOf(message string) string {
	sum := sha256.Sum256([]byte("trace of " + message))
	return hex.EncodeToString(sum[:16])
}

// TraceIn returns the trace id in the headers of a message; empty if there is none.
func TraceIn(headers map[string]string) string {
	parts := strings.Split(headers["traceparent"], "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// TraceLink returns where people see a trace, by a template such as https://traces/{trace_id}; empty without one.
func TraceLink(template, trace string) string {
	if trace == "" {
		return ""
	}
	return strings.ReplaceAll(template, "{trace_id}", trace)
}
