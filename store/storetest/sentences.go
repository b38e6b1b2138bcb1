package storetest

import (
	"slices"

	"github.com/pawl-dev/pawl/store"
)

// Sentence is one rule of the contract with its test.
type Sentence struct {
	Theme string // the group in tables
	Name  string // unique: SettleAfterLossIsFenced
	Text  string // the rule, in a sentence
	// Needs are the capabilities without which the rule makes no sense.
	Needs []store.Capability
	// OpenTx: the rule needs a caller's transaction that stays open while others
	// write; see [Instance.TxStalls].
	OpenTx bool
	// Schema: the rule is about [store.Migrator].
	Schema bool
	// Test fails its T if the store breaks the rule.
	Test func(*T)
}

// Sentences returns the whole contract, by theme.
func Sentences() []Sentence {
	return slices.Concat(
		theme("leases", slices.Concat(leaseSentences(), extendSentences())),
		theme("lanes", slices.Concat(laneSentences(), tailSentences())),
		theme("runs", runSentences()),
		theme("delay", delaySentences()),
		theme("rank", rankSentences()),
		theme("rescues", slices.Concat(rescueSentences(), solitudeSentences())),
		theme("counting", countSentences()),
		theme("messages", idSentences()),
		theme("unique keys", uniqueSentences()),
		theme("emit", emitSentences()),
		theme("claims", claimSentences()),
		theme("batches", batchSentences()),
		theme("limits", limitSentences()),
		theme("topics", slices.Concat(topicSentences(), removeSentences(), boundSentences())),
		theme("figures", statsSentences()),
		theme("parking", parkSentences()),
		theme("retaining", retainSentences()),
		theme("looking", inspectSentences()),
		theme("dead letters", slices.Concat(deadSentences(), triageSentences())),
		theme("state", stateSentences()),
		theme("marks", markSentences()),
		theme("pace", paceSentences()),
		theme("results", resultSentences()),
		theme("waking", wakeSentences()),
		theme("processes", processSentences()),
		theme("durability", surviveSentences()),
		theme("transactions", txSentences()),
		theme("schema", schemaSentences()),
		theme("calls", slices.Concat(closeSentences(), describeSentences())),
	)
}

func theme(name string, sentences []Sentence) []Sentence {
	for i := range sentences {
		sentences[i].Theme = name
	}
	return sentences
}

func needs(cs ...store.Capability) []store.Capability { return cs }

// backend is what decides which sentences apply.
type backend struct {
	store.Description
	txStalls string // see [Instance.TxStalls]
	schema   bool   // it is a [store.Migrator]
}

// refusal says why a backend does not keep s: the first capability that it lacks,
// with its reason. It is empty if s applies.
func (s *Sentence) refusal(b backend) string {
	for _, c := range s.Needs {
		if !b.Capabilities.Has(c) {
			return string(c) + ": " + b.Capabilities[c].Note
		}
	}
	if s.OpenTx && b.txStalls != "" {
		return string(store.CanTxAppend) + ": " + b.txStalls
	}
	if s.Schema && !b.schema {
		return "it has no schema"
	}
	return ""
}
