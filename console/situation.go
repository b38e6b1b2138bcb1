package console

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/operate"
)

// situations are what people are told first of a message, in Chinese: where it is. What [operate.Explanation] says with
// names and times follows.
var situations = map[string]string{
	operate.SituationReady:    "It waits for a worker with room.",
	operate.SituationBehind:   "Another message of its key is before it.",
	operate.SituationHeld:     "What was before it keeps its lane closed for a while.",
	operate.SituationPaused:   "Its topic is paused.",
	operate.SituationLimited:  "A rate or limit keeps it back.",
	operate.SituationDelayed:  "It is for later.",
	operate.SituationRetrying: "It failed, and is tried again later.",
	operate.SituationSuspect:  "Its workers died, perhaps because of it.",
	operate.SituationLeased:   "A worker has it.",
	operate.SituationDead:     "It is a dead letter.",
	operate.SituationReplayed: "It had been a dead letter, and is ready again.",
	operate.SituationRetained: "It is done, and its topic keeps it for a while.",
	operate.SituationUnknown:  "It is done, or was never here.",
}

// decided is what the policy decided and why, such as "dead: the rule never retries", in the language of the person.
func decided(v *view, action string) string {
	did, why, told := strings.Cut(action, ": ")
	if !told || v.Lang != zh {
		return action
	}
	return v.T(did) + "：" + v.Sentence(why)
}

// Why is why a message is where it is, in the language of the person.
func (v *view) Why(x *operate.Explanation) string {
	if v.Lang == zh {
		return v.T(situations[x.Situation]) + " " + v.Sentence(x.Why) + "。"
	}
	return x.Why + "."
}
