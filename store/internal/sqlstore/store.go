package sqlstore

import "github.com/pawl-dev/pawl/store"

// Store is what every SQL store implements.
type Store interface {
	store.Store
	store.Topics
	store.Inspector
	store.DeadLetters
	store.Waker
	store.Shared
	store.Results
	store.Migrator
	store.Describer
}

// Capabilities are all that there are, each kept, some with a note.
func Capabilities(notes map[store.Capability]string) store.Capabilities {
	all := store.Capabilities{}
	for _, c := range store.AllCapabilities {
		all[c] = store.Support{Kept: true, Note: notes[c]}
	}
	return all
}
