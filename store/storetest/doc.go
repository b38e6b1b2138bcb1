// Package storetest is the suite that every store must pass. A backend's test
// opens fresh stores for it and is about twenty lines long:
//
//	func TestStore(t *testing.T) { storetest.Run(t, storetest.Harness{Open: open}) }
//
// It has four layers. The contract: a short test for every sentence of packages
// pawl and store. Random steps, compared with the answers of package memory, the
// reference. Concurrency: claimers and appenders at once, on two handles where the
// backend has them, and histories checked for linearizability. Faults: calls
// that fail before or after they took effect, handles that vanish.
//
// A sentence that needs a capability which the backend refuses is reported as
// refused, by name and with the backend's reason. Mutants, stores that break one
// rule on purpose, show that the suite can fail: [Rejects].
package storetest
