package observe

import "log/slog"

// LevelCritical is above slog.LevelError: somebody must look at once.
const LevelCritical = slog.LevelError + 4

// Names of log attributes. They are fixed: programs that read logs rely on them.
const (
	Time          = "time"
	Level         = "level"
	Module        = "module"
	Message       = "message"
	EventType     = "event_type"
	Phase         = "phase"
	ErrorKind     = "error_kind"
	TraceID       = "trace_id"
	TaskID        = "task_id"
	ModuleID      = "module_id"
	RequestID     = "request_id"
	QueueTopic    = "queue_topic"
	PolicyAction  = "policy.action"
	PolicyReason  = "policy.reason"
	PolicyDegrade = "policy.degrade"
	RetryCount    = "retry.count"
	RetryMax      = "retry.max"
	NodeID        = "node_id"
)
