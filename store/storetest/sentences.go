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

// themes group the lists of sentences. What all sentences of a list need stands here once.
var themes = []struct {
	name      string
	needs     []store.Capability
	sentences []Sentence
}{
	{"leases", nil, leaseSentences},
	{"leases", needs(store.CanDeadline), extendSentences},
	{"lanes", nil, laneSentences},
	{"lanes", needs(store.CanTopics, store.CanDelay), tailSentences},
	{"runs", nil, runSentences},
	{"delay", needs(store.CanDelay), delaySentences},
	{"clock", nil, setBackSentences},
	{"clock", needs(store.CanMarks), setBackMarkSentences},
	{"rank", needs(store.CanPriority), rankSentences},
	{"rescues", nil, rescueSentences},
	{"rescues", needs(store.CanDeadline), solitudeSentences},
	{"counting", nil, countSentences},
	{"messages", nil, idSentences},
	{"unique keys", needs(store.CanUnique), uniqueSentences},
	{"emit", needs(store.CanEmitAtomic), emitSentences},
	{"claims", nil, claimSentences},
	{"batches", nil, batchSentences},
	{"limits", nil, limitSentences},
	{"topics", needs(store.CanTopics), topicSentences},
	{"topics", needs(store.CanRemove, store.CanTopics, store.CanFigures), removeSentences},
	{"topics", needs(store.CanTopics, store.CanBound), boundSentences},
	{"topics", needs(store.CanTopics), []Sentence{boundIsKeptOrRefused}},
	{"figures", needs(store.CanTopics, store.CanFigures), statsSentences},
	{"parking", needs(store.CanTopics, store.CanDeadLetters), parkSentences},
	{"retaining", needs(store.CanTopics, store.CanLookup), retainSentences},
	{"looking", needs(store.CanLookup), inspectSentences},
	{"dead letters", needs(store.CanDeadLetters), deadSentences},
	{"dead letters", needs(store.CanDeadLetters), burySentences},
	{"dead letters", needs(store.CanTriage, store.CanDeadLetters, store.CanLookup), triageSentences},
	{"state", needs(store.CanState), stateSentences},
	{"marks", needs(store.CanMarks), markSentences},
	{"marks", needs(store.CanMarks), markAckSentences},
	{"pace", needs(store.CanPace), paceSentences},
	{"results", needs(store.CanResults, store.CanTopics), resultSentences},
	{"waking", needs(store.CanWake), wakeSentences},
	{"processes", needs(store.CanProcesses), processSentences},
	{"durability", needs(store.CanSurvive), surviveSentences},
	{"transactions", needs(store.CanTxAppend), txSentences},
	{"transactions", needs(store.CanTxAppend), txAckSentences},
	{"schema", nil, schemaSentences},
	{"calls", nil, closeSentences},
	{"calls", nil, describeSentences},
}

// Sentences returns the whole contract, by theme.
func Sentences() []Sentence {
	var all []Sentence
	for _, th := range themes {
		for _, s := range th.sentences {
			s.Theme, s.Needs = th.name, slices.Concat(th.needs, s.Needs)
			all = append(all, s)
		}
	}
	return all
}

func needs(cs ...store.Capability) []store.Capability { return cs }

// description is what decides which sentences apply.
type description struct {
	store.Description
	txStalls string // see [Instance.TxStalls]
	schema   bool   // it is a [store.Migrator]
}

// refusal says why a backend does not keep s: the first capability that it lacks,
// with its reason. It is empty if s applies.
func (s *Sentence) refusal(b description) string {
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
