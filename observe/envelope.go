package observe

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// Envelope is an event. It does not change once it was emitted: consumers share
// Attrs. Ids are fields of it, never labels of a metric.
type Envelope struct {
	ID string `json:"id"`
	// Seq counts the events of a bus from 1. Every consumer gets them in this
	// order; what is missing was dropped.
	Seq       uint64            `json:"seq"`
	Time      time.Time         `json:"time"`
	Domain    string            `json:"domain"`
	Type      string            `json:"type"`
	Phase     string            `json:"phase"`
	MessageID string            `json:"message_id,omitempty"`
	Topic     string            `json:"topic,omitempty"`
	Kind      pawl.Kind         `json:"kind,omitempty"`
	Err       string            `json:"error,omitempty"`
	TraceID   string            `json:"trace_id,omitempty"`
	Attrs     map[string]string `json:"attrs,omitempty"`
}

// The domains of events.
const (
	DomainEngine = "Engine" // what pipelines do
	DomainSystem = "System" // what the process around them does
)

// The phases of events.
const (
	PhaseStarted   = "Started"
	PhaseCompleted = "Completed"
	PhaseFailed    = "Failed"
	PhaseRetry     = "Retry" // a repetition failed
)

// PhaseOf is the phase that an event of that name counts as: Received, Prepared,
// Send, Create, Generate and Before are Started, ErrorOccurred is Failed,
// ErrorHandled is Completed. Any other name stands for itself.
func PhaseOf(name string) string {
	switch name {
	case "Received", "Prepared", "Send", "Create", "Generate", "Before":
		return PhaseStarted
	case "ErrorOccurred":
		return PhaseFailed
	case "ErrorHandled":
		return PhaseCompleted
	default:
		return name
	}
}

// EventSpec is a type of event, and the phases that it may have.
type EventSpec struct {
	Domain string
	Name   string
	Phases []string
}

// EventTypes are the types of events that a bus accepts. Their number is bounded: they
// name code, never data. It is safe for concurrent use.
type EventTypes struct {
	mu    sync.RWMutex
	types []EventSpec
}

// maxTypes is how many types there may be: as many as a label may have values.
const maxTypes = 100

// ErrUnknownEvent: the type was not registered, or does not have the phase.
var ErrUnknownEvent = errors.New("unknown event")

// NewEventTypes returns the types of the engine and of the system. A pipeline
// registers its own.
func NewEventTypes() *EventTypes {
	once := []string{PhaseStarted, PhaseCompleted, PhaseFailed}
	repeated := append(slices.Clone(once), PhaseRetry)
	t := &EventTypes{}
	for _, name := range []string{
		"TaskModel", "ParserTaskModel", "RequestPublish", "RequestMiddleware", "Download", "ResponseMiddleware",
		"ResponsePublish", "ModuleGenerate", "Parser", "MiddlewareBefore", "DataStore",
	} {
		phases := repeated
		if name == "RequestMiddleware" || name == "ResponseMiddleware" || name == "Parser" {
			phases = once
		}
		t.types = append(t.types, EventSpec{DomainEngine, name, phases})
	}
	t.types = append(t.types,
		EventSpec{DomainSystem, "SystemError", []string{PhaseCompleted, PhaseFailed}},
		EventSpec{DomainSystem, "SystemHealth", once},
	)
	return t
}

// Register adds types. All of them are added, or none, and every problem is
// reported at once.
func (t *EventTypes) Register(types ...EventSpec) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.types)
	var faults pawl.Faults
	for _, n := range types {
		faults.About = fmt.Sprintf("register event type %q: ", n.Name)
		faults.If(n.Name == "", "the name is missing")
		faults.If(n.Domain != DomainEngine && n.Domain != DomainSystem, "domain %q; it is %s or %s", n.Domain,
			DomainEngine,
			DomainSystem)
		faults.If(len(n.Phases) == 0, "it has no phases")
		for _, p := range n.Phases {
			known := slices.Contains([]string{PhaseStarted, PhaseCompleted, PhaseFailed, PhaseRetry}, p)
			faults.If(!known, "phase %q; it is Started, Completed, Failed or Retry", p)
		}
		faults.If(find(all, n.Domain, n.Name) != nil, "it is registered already; another name is needed")
		n.Phases = slices.Clone(n.Phases)
		all = append(all, n)
	}
	faults.About = "register event types: "
	faults.If(len(all) > maxTypes, "%d in all; at most %d", len(all), maxTypes)
	err := faults.Err()
	if err == nil {
		t.types = all
	}
	return err
}

// All returns the types, in the order in which they were registered.
func (t *EventTypes) All() []EventSpec {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.types)
}

func find(types []EventSpec, domain, name string) *EventSpec {
	for i := range types {
		if types[i].Domain == domain && types[i].Name == name {
			return &types[i]
		}
	}
	return nil
}

// Check reports whether a type and phase are registered: the error is an
// [ErrUnknownEvent] that says which are.
func (t *EventTypes) Check(domain, typ, phase string) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch found := find(t.types, domain, typ); {
	case found == nil:
		return fmt.Errorf("%w: type %s/%s is not registered; register it before it is emitted", ErrUnknownEvent,
			domain, typ)
	case !slices.Contains(found.Phases, PhaseOf(phase)):
		return fmt.Errorf("%w: type %s/%s has no phase %q; it has %q", ErrUnknownEvent, domain, typ, phase,
			found.Phases)
	}
	return nil
}
