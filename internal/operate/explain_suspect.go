package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// usualLease is the default of a worker's lease. What another one has is not known here.
const usualLease = 30 * time.Second

// suspected says how a message is carried out that may have killed its workers.
func (x *explaining) suspected(ctx context.Context, topic *store.TopicStats, visible time.Time) {
	r := x.record
	died := counted(r.Rescues, "worker") + " died, or lost the lease, while processing it"
	if !store.Solitary(r.Rescues) {
		x.say(SituationSuspect, visible,
			"%s; so a worker processes only a few like it at a time, alongside other work, and after %d more deaths it is processed alone",
			died, store.SolitaryAfter-r.Rescues)
		return
	}
	x.say(SituationSuspect, visible,
		"%s; so it is processed alone, and becomes a dead letter after %d more",
		died, max(store.LonelyRescues-r.Lonely, 1))
	x.then(time.Time{}, "the next worker that is idle, or makes itself idle, claims it")
	if until := topic.Deaths.Until(usualLease); until.After(x.now(ctx)) {
		x.Why += fmt.Sprintf(
			"; but the last %d workers died while holding other messages of the topic, so the message may not be the cause",
			len(topic.Deaths))
		x.then(until, "if no more workers die until then, the next idle worker claims it")
	}
}
