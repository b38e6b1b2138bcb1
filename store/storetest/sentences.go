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
	// Test fails its T if the store breaks the rule.
	Test func(*T)
}

// Sentences returns the whole contract, by theme.
func Sentences() []Sentence {
	return slices.Concat(
		theme("leases", slices.Concat(leaseSentences(), extendSentences())),
		theme("lanes", laneSentences()),
		theme("runs", runSentences()),
		theme("delay", delaySentences()),
		theme("rank", rankSentences()),
		theme("rescues", rescueSentences()),
		theme("counting", countSentences()),
		theme("messages", idSentences()),
		theme("unique keys", uniqueSentences()),
		theme("emit", emitSentences()),
		theme("claims", claimSentences()),
		theme("batches", batchSentences()),
		theme("limits", limitSentences()),
		theme("topics", topicSentences()),
		theme("figures", statsSentences()),
		theme("parking", parkSentences()),
		theme("retaining", retainSentences()),
	)
}

func theme(name string, sentences []Sentence) []Sentence {
	for i := range sentences {
		sentences[i].Theme = name
	}
	return sentences
}

func needs(cs ...store.Capability) []store.Capability { return cs }

// refusedBy names the first capability that s needs and cs lacks.
func (s *Sentence) refusedBy(cs store.Capabilities) (c store.Capability, note string, refused bool) {
	for _, c := range s.Needs {
		if !cs.Has(c) {
			return c, cs[c].Note, true
		}
	}
	return "", "", false
}
