package enginetest

import (
	"slices"
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
	var all []storetest.Sentence
	for _, s := range Scenarios() {
		all = append(all, storetest.Sentence{Name: s.Name, Needs: append(needs(store.CanTopics), s.Needs...),
			Test: func(t *storetest.T) { s.Test(newRig(t)) }})
	}
	storetest.Each(t, h, all)
}

func needs(cs ...store.Capability) []store.Capability { return cs }
