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

// themes group the lists of sentences. What all sentences of a list need and begin with stands here once.
var themes = []struct {
	name      string
	needs     []store.Capability
	begin     func(*T)
	sentences []Sentence
}{
	{"leases", nil, nil, leaseSentences},
	{"leases", needs(store.CanDeadline), nil, extendSentences},
	{"lanes", nil, nil, laneSentences},
	{"lanes", needs(store.CanTopics, store.CanDelay), (*T).tailing, tailSentences},
	{"lanes", needs(store.CanTopics, store.CanDelay), nil, tailSettingSentences},
	{"runs", nil, nil, runSentences},
	{"delay", needs(store.CanDelay), nil, delaySentences},
	{"clock", nil, nil, setBackSentences},
	{"clock", needs(store.CanMarks), nil, setBackMarkSentences},
	{"rank", needs(store.CanPriority), nil, rankSentences},
	{"rescues", nil, nil, rescueSentences},
	{"rescues", needs(store.CanDeadline), nil, aloneSentences},
	{"counting", nil, nil, countSentences},
	{"messages", nil, nil, idSentences},
	{"unique keys", needs(store.CanUnique), nil, uniqueSentences},
	{"emit", needs(store.CanEmitAtomic), nil, emitSentences},
	{"claims", nil, nil, claimSentences},
	{"batches", nil, nil, batchSentences},
	{"limits", nil, nil, limitSentences},
	{"topics", needs(store.CanTopics), nil, topicSentences},
	{"topics", needs(store.CanRemove, store.CanTopics, store.CanFigures), nil, removeSentences},
	{"topics", needs(store.CanTopics, store.CanBound), nil, boundSentences},
	{"topics", needs(store.CanTopics), nil, []Sentence{boundIsKeptOrRefused}},
	{"figures", needs(store.CanTopics, store.CanFigures), nil, statsSentences},
	{"parking", needs(store.CanTopics, store.CanDeadLetters), (*T).parking, parkSentences},
	{"retaining", needs(store.CanTopics, store.CanLookup), nil, retainSentences},
	{"looking", needs(store.CanLookup), nil, inspectSentences},
	{"dead letters", needs(store.CanDeadLetters), nil, deadSentences},
	{"dead letters", needs(store.CanDeadLetters), nil, importSentences},
	{"dead letters", needs(store.CanResolve, store.CanDeadLetters, store.CanLookup), nil, resolveSentences},
	{"state", needs(store.CanState), nil, stateSentences},
	{"marks", needs(store.CanMarks), nil, markSentences},
	{"marks", needs(store.CanMarks), nil, markAckSentences},
	{"pace", needs(store.CanPace), nil, paceSentences},
	{"results", needs(store.CanResults, store.CanTopics), nil, resultSentences},
	{"waking", needs(store.CanWake), nil, wakeSentences},
	{"processes", needs(store.CanProcesses), nil, processSentences},
	{"durability", needs(store.CanSurvive), nil, surviveSentences},
	{"transactions", needs(store.CanTxAppend), nil, txSentences},
	{"transactions", needs(store.CanTxAppend), nil, txAckSentences},
	{"schema", nil, nil, schemaSentences},
	{"calls", nil, nil, callSentences},
}

// Sentences returns the whole contract, by theme.
func Sentences() []Sentence {
	var all []Sentence
	for _, th := range themes {
		for _, s := range th.sentences {
			s.Theme, s.Needs = th.name, slices.Concat(th.needs, s.Needs)
			if test := s.Test; th.begin != nil {
				s.Test = func(t *T) {
					th.begin(t)
					test(t)
				}
			}
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
