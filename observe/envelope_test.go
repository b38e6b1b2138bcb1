package observe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The table of docs/events.md says what is registered, type by type.
func TestDocumentedTypesAreThoseRegistered(t *testing.T) {
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, registered []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| Engine ") || strings.HasPrefix(line, "| System ") {
			documented = append(documented, strings.TrimSpace(line))
		}
	}
	for _, e := range NewEventTypes().All() {
		cells := []string{e.Domain, e.Name}
		for _, phase := range []string{PhaseStarted, PhaseCompleted, PhaseFailed, PhaseRetry} {
			has := "no"
			if slices.Contains(e.Phases, phase) {
				has = "yes"
			}
			cells = append(cells, has)
		}
		registered = append(registered, "| "+strings.Join(cells, " | ")+" |")
	}
	if !slices.Equal(documented, registered) {
		t.Errorf("docs/events.md has\n%s\nregistered are\n%s", strings.Join(documented, "\n"),
			strings.Join(registered, "\n"))
	}
	for _, name := range []string{"Received", "Prepared", "Send", "Create", "Generate", "Before", "ErrorOccurred",
		"ErrorHandled"} {
		if PhaseOf(name) == name || !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s: phase %s; is it documented?", name, PhaseOf(name))
		}
	}
}

func TestPipelinesRegisterTheirTypes(t *testing.T) {
	types := NewEventTypes()
	if err := types.Register(EventSpec{DomainEngine, "ChatMessage", []string{PhaseStarted, PhaseFailed}}); err != nil {
		t.Fatal(err)
	}
	if err := types.Check(DomainEngine, "ChatMessage", "Received"); err != nil {
		t.Error(err)
	}
	before := len(types.All())
	err := types.Register(
		EventSpec{DomainEngine, "Good", []string{PhaseStarted}},
		EventSpec{DomainEngine, "ChatMessage", []string{PhaseStarted}},
		EventSpec{"Other", "A", []string{PhaseStarted}},
		EventSpec{DomainEngine, "", []string{"Ended"}},
		EventSpec{DomainEngine, "B", nil},
	)
	for _, want := range []string{`"ChatMessage": it is registered already`, `"A": domain "Other"`,
		`"": the name is missing`, `"": phase "Ended"`, `"B": it has no phases`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if len(types.All()) != before {
		t.Error("half of a bad registration was kept")
	}
	many := make([]EventSpec, maxTypes)
	for i := range many {
		many[i] = EventSpec{DomainEngine, fmt.Sprint("T", i), []string{PhaseStarted}}
	}
	if err := types.Register(many...); err == nil || errors.Is(err, ErrUnknownEvent) {
		t.Error(err)
	}
}
