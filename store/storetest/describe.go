package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
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
	{Text: "The optional interface of a capability is there if, and only if, the capability is declared; a part of one that " +
		"is not declared answers ErrUnsupported.",
		Name: "DeclaredIsThere", Test: func(t *T) {
			d := optional[store.Describer](t).Describe()
			for c, there := range map[store.Capability]bool{
				store.CanTopics: implements[store.Topics](t), store.CanDeadLetters: implements[store.DeadLetters](t),
				store.CanWake: implements[store.Waker](t), store.CanResults: implements[store.Results](t),
			} {
				if there != d.Capabilities.Has(c) {
					t.Errorf("%s is declared: %t; its interface is there: %t", c, d.Capabilities.Has(c), there)
				}
			}
			refusesTheRest(t, d.Capabilities)
		}},
}

// refusesTheRest checks that parts of an interface that are not declared are refused.
func refusesTheRest(t *T, can store.Capabilities) {
	errs := map[string]error{}
	if topics, ok := store.As[store.Topics](t.Store); ok {
		if !can.Has(store.CanRemove) {
			errs["remove topic"] = topics.RemoveTopic(t.ctx(), t.Topic)
		}
		if full, err := topics.Full(t.ctx(), t.Topic); !can.Has(store.CanBound) && (err != nil || len(full) > 0) {
			t.Errorf("%+v are full, %v", full, err)
		}
	}
	if letters, ok := store.As[store.DeadLetters](t.Store); ok && !can.Has(store.CanTriage) {
		_, errs["replay keeping"] = letters.ReplayKeeping(t.ctx(), "", "a")
		_, errs["resolve"] = letters.Resolve(t.ctx(), "me", "", "a")
		_, errs["reopen"] = letters.Reopen(t.ctx(), "a")
	}
	if i, ok := store.As[store.Inspector](t.Store); ok && !can.Has(store.CanLookup) {
		_, errs["cancel"] = i.Cancel(t.ctx(), "a")
		_, errs["run now"] = i.RunNow(t.ctx(), "a")
		_, errs["skip"] = i.Skip(t.ctx(), "", "a")
	}
	if shared, ok := store.As[store.Shared](t.Store); ok {
		if !can.Has(store.CanState) {
			_, errs["put state"] = shared.PutState(t.ctx(), "a", nil, 0, "")
		}
		if !can.Has(store.CanMarks) {
			_, errs["put marks"] = shared.PutMarks(t.ctx(), pawl.Mark{Scope: "a", Key: "a"})
		}
		if !can.Has(store.CanPace) {
			_, errs["reserve"] = shared.Reserve(t.ctx(), store.Pace{Key: "a", Every: time.Second, N: 1})
		}
	}
	for what, err := range errs {
		if !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%s, which is not declared: %v", what, err)
		}
	}
}

// implements reports whether the store has an optional interface.
func implements[I any](t *T) bool {
	_, ok := store.As[I](t.Store)
	return ok
}
