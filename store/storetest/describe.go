package storetest

import (
	"slices"

	"github.com/pawl-dev/pawl/store"
)

var describeSentences = []Sentence{
	{Text: "A store says its name, the form of its URL, what durable means, and for every capability that it refuses why.",
		Name: "StoreDescribesItself", Test: func(t *T) {
			d := optional[store.Describer](t).Describe()
			if d.Name == "" || d.URL == "" || d.Durability == "" {
				t.Errorf("description %+v is not complete", d)
			}
			for _, c := range store.AllCapabilities {
				if s := d.Capabilities[c]; !s.Kept && s.Note == "" {
					t.Errorf("%s is refused without a reason", c)
				}
			}
			for c := range d.Capabilities {
				if !slices.Contains(store.AllCapabilities, c) {
					t.Errorf("capability %q is not one of the contract's", c)
				}
			}
		}},
	{Text: "The optional interface of a capability is there if, and only if, the capability is declared.",
		Name: "DeclaredIsThere", Test: func(t *T) {
			d := optional[store.Describer](t).Describe()
			_, topics := store.As[store.Topics](t.Store)
			_, lookup := store.As[store.Inspector](t.Store)
			_, dead := store.As[store.DeadLetters](t.Store)
			_, wake := store.As[store.Waker](t.Store)
			_, state := store.As[store.Entries](t.Store)
			_, marks := store.As[store.Marks](t.Store)
			_, results := store.As[store.Results](t.Store)
			_, triage := store.As[store.Triage](t.Store)
			_, remove := store.As[store.TopicRemover](t.Store)
			_, bounded := store.As[store.Bounded](t.Store)
			for c, there := range map[store.Capability]bool{
				store.CanTopics: topics, store.CanLookup: lookup, store.CanDeadLetters: dead, store.CanWake: wake,
				store.CanState: state,
				store.CanMarks: marks, store.CanResults: results, store.CanTriage: triage,
				store.CanRemove: remove, store.CanBound: bounded,
			} {
				if there != d.Capabilities.Has(c) {
					t.Errorf("%s is declared: %t; its interface is there: %t", c, d.Capabilities.Has(c), there)
				}
			}
		}},
}
