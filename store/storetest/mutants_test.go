package storetest_test

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// mutant is a store that breaks one rule, and the sentences that must notice.
type mutant struct {
	name string
	rule breakage
	by   []string
}

func mutants() []mutant {
	return slices.Concat(leaseMutants(), laneMutants(), rankMutants(), rescueMutants(),
		appendMutants(), settleMutants(), callMutants(), optionalMutants())
}

func (m *mutant) harness() storetest.Harness {
	return inMemory(func(s store.Store, c *clock) store.Store { return m.rule(&broken{Store: s, now: c.Now}) })
}

// TestMutants shows that the suite can fail: it rejects every mutant, by the
// sentences that are about the broken rule.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			storetest.Rejects(t, m.harness(), m.by...)
		})
	}
}

// TestDecoratorsBreakNothing: it is the broken rule that is rejected, not the
// decorator that breaks it.
func TestDecoratorsBreakNothing(t *testing.T) {
	nothing := func(b *broken) store.Store { return b }
	for name, rule := range map[string]breakage{
		"appending": appending(func(*pawl.Message) {}),
		"settling":  settling(func(*store.Settlement) {}),
		"claimed":   claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery { return ds }),
		"wanting":   wanting(func(*store.Want, *store.Lease) {}),
		"hiding":    hiding(func(*broken, *pawl.Delivery) bool { return false }),
		"all":       all(nothing, settling(func(*store.Settlement) {})),
	} {
		t.Run(name, func(t *testing.T) {
			m := mutant{name: name, rule: rule}
			if failed := storetest.Failing(t, m.harness()); len(failed) > 0 {
				t.Fatalf("%q fail on a decorator that breaks nothing", failed)
			}
		})
	}
	chosen := mutant{rule: choosing(func([]pawl.Delivery) {})}
	var by []string
	for _, m := range rankMutants() {
		by = append(by, m.by...)
	}
	if failed := storetest.Failing(t, chosen.harness(), by...); len(failed) > 0 {
		t.Fatalf("%q fail on a claim that chooses nothing", failed)
	}
}
