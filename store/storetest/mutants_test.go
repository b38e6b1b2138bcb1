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
	nothing := mutant{rule: all(
		appending(func(*pawl.Message) {}),
		settling(func(*store.Settlement) {}),
		claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery { return ds }),
		wanting(func(*store.Want, *store.Lease) {}),
		hiding(func(*broken, *pawl.Delivery) bool { return false }),
	)}
	if failed := storetest.Failing(t, nothing.harness()); len(failed) > 0 {
		t.Errorf("%q fail on decorators that break nothing", failed)
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
