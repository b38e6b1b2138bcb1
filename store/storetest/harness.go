package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Harness is what a backend gives the suite.
type Harness struct {
	// Open gives a fresh, empty, migrated store, which t.Cleanup closes. It is
	// called from parallel tests.
	Open func(t testing.TB) *Instance
	// Only are the themes of the sentences to try; nil: the whole suite. With themes, random steps and the faults are
	// left out, too: that is for a backend that has passed all of it with a stand-in for its server.
	Only []string
}

// Instance is one store under test and what can be done to it from outside.
// What a backend cannot do is nil.
type Instance struct {
	Store store.Store
	// Advance moves the store's clock forward, for all handles of this instance.
	Advance func(d time.Duration)
	// SetBack sets the store's clock back, and lets a store that looks at its clock now and then do so; nil for one
	// whose clock is monotonic.
	SetBack func(d time.Duration)
	// Peer opens a second handle on the same data, as another process would have
	// it; t.Cleanup closes it. Backends with [store.CanProcesses] have it.
	Peer func(t testing.TB) store.Store
	// Reopen closes Store and opens its data again. Backends with
	// [store.CanSurvive] have it.
	Reopen func(t testing.TB) store.Store
	// Crash drops the handle without Close, as the end of a process would, and
	// opens the data again. Optional.
	Crash func(t testing.TB) store.Store
	// Tx runs do within a transaction of the caller and commits it if do says
	// so; it rolls back if do does not return. appendTx appends within it.
	// Backends with [store.CanTxAppend] have it.
	Tx func(t testing.TB, do func(appendTx func(store.Batch[pawl.Message]) ([]store.Receipt, error)) (commit bool))
	// AckTx acks a token in a transaction of the caller, which it commits or rolls back. Backends with
	// [store.TxStore] have it.
	AckTx func(t testing.TB, token pawl.Token, commit bool) error
	// TxStalls quotes the store's documentation if an open transaction of the
	// caller stalls other writers. What needs such a transaction is refused then.
	TxStalls string
}

// Run puts a backend to the test: contract, random steps, concurrency, faults.
func Run(t *testing.T, h Harness) {
	t.Run("contract", func(t *testing.T) { Each(t, h, h.sentences()) })
	t.Run("concurrency", func(t *testing.T) { Each(t, h, races()) })
	if h.Only == nil {
		t.Run("random", func(t *testing.T) { runRandom(t, h) })
		t.Run("faults", func(t *testing.T) { runFaults(t, h) })
	}
}

// sentences returns those of the contract that h asks for.
func (h Harness) sentences() []Sentence {
	all := Sentences()
	if h.Only == nil {
		return all
	}
	for _, theme := range h.Only {
		if !slices.ContainsFunc(all, func(s Sentence) bool { return s.Theme == theme }) {
			panic("storetest: no theme is called " + theme)
		}
	}
	return slices.DeleteFunc(all, func(s Sentence) bool { return !slices.Contains(h.Only, s.Theme) })
}

// Each runs each test on a store of its own, and reports those that the backend refuses.
func Each(t *testing.T, h Harness, tests []Sentence) {
	b := h.describe(t)
	var refused []string
	for _, s := range tests {
		if why := s.refusal(b); why != "" {
			refused = append(refused, s.Name+": "+why)
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Test(newT(t, h.Open(t)))
		})
	}
	if len(refused) > 0 {
		t.Logf("%s refuses %d tests:\n\t%s", b.Name, len(refused), strings.Join(refused, "\n\t"))
	}
}

// describe asks a store of h what it keeps, and whether the harness can show it.
func (h Harness) describe(t testing.TB) description {
	t.Helper()
	in := h.Open(t)
	describer, ok := store.As[store.Describer](in.Store)
	if !ok {
		t.Fatalf("%T does not describe itself", in.Store)
	}
	d := describer.Describe()
	for c, have := range map[store.Capability]bool{
		store.CanProcesses: in.Peer != nil, store.CanSurvive: in.Reopen != nil, store.CanTxAppend: in.Tx != nil,
	} {
		if d.Capabilities.Has(c) && !have {
			t.Fatalf("%s declares %s, but its harness cannot show it", d.Name, c)
		}
	}
	_, schema := store.As[store.Migrator](in.Store)
	return description{d, in.TxStalls, schema}
}
