package trace

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The one place for the names of spans, events and attributes. What the semantic conventions for messaging (1.43,
// in development) name has their names; retries, policy and such have none there, and are our own.
const (
	schema = semconv.SchemaURL

	opSend    = "send"
	opProcess = "process"
	opSettle  = "settle"
	opReplay  = "replay" // no convention

	attrSystem      = semconv.MessagingSystemKey
	attrOperation   = semconv.MessagingOperationNameKey
	attrType        = semconv.MessagingOperationTypeKey
	attrDestination = semconv.MessagingDestinationNameKey
	attrMessage     = semconv.MessagingMessageIDKey
	attrSize        = semconv.MessagingMessageBodySizeKey
	attrPartition   = semconv.MessagingDestinationPartitionIDKey
	attrOffset      = semconv.MessagingKafkaOffsetKey
	attrError       = semconv.ErrorTypeKey
	attrBatch       = semconv.MessagingBatchMessageCountKey

	attrAttempt   = attribute.Key("pawl.attempt")
	attrRescues   = attribute.Key("pawl.rescues")
	attrReplays   = attribute.Key("pawl.replays")
	attrThrottles = attribute.Key("pawl.throttles")
	attrWaited    = attribute.Key("pawl.waited_seconds")
	attrVerdict   = attribute.Key("pawl.verdict")
	attrAction    = attribute.Key("pawl.policy.action")
	attrRule      = attribute.Key("pawl.policy.rule")
	attrAfter     = attribute.Key("pawl.after_seconds")
	attrCount     = attribute.Key("pawl.emit.count")
	attrKept      = attribute.Key("pawl.kept") // why it was exported, beside sampling

	eventDecision = "decision"
	eventEmit     = "emit"
	eventHold     = "hold"
	eventRescue   = "rescue"

	system = "pawl"
	// stateKey is our member of a tracestate: the span above a send that is exported only if an attempt needs it.
	stateKey = "pawl"
)

// operationType is the type of an operation, by the conventions.
func operationType(op string) string {
	if op == opReplay {
		return opSend
	}
	return op
}
