package enginetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// Scenario is one thing that must work on every store.
type Scenario struct {
	Name string
	Text string
	// Needs are the capabilities without which it makes no sense, beside
	// store.CanTopics, with whose figures every scenario is checked.
	Needs []store.Capability
	Test  func(*Rig)
}

// Scenarios returns all of them.
func Scenarios() []Scenario {
	return slices.Concat(workScenarios, crashScenarios, timeScenarios, peerScenarios)
}

// Run runs every scenario on a store of its own. What the backend refuses is
// reported by name and reason.
func Run(t *testing.T, h storetest.Harness) {
	describer, ok := store.As[store.Describer](h.Open(t).Store)
	if !ok {
		t.Fatal("the store does not describe itself")
	}
	d := describer.Describe()
	var refused []string
	for _, s := range Scenarios() {
		if why := s.refusal(d.Capabilities); why != "" {
			refused = append(refused, s.Name+": "+why)
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Test(newRig(t, h.Open(t)))
		})
	}
	if len(refused) > 0 {
		t.Logf("%s refuses %d scenarios:\n\t%s", d.Name, len(refused), strings.Join(refused, "\n\t"))
	}
}

// refusal says which capability is missing, and why.
func (s Scenario) refusal(have store.Capabilities) string {
	for _, c := range append(needs(store.CanTopics), s.Needs...) {
		if !have.Has(c) {
			return string(c) + ": " + have[c].Note
		}
	}
	return ""
}

func needs(cs ...store.Capability) []store.Capability { return cs }
