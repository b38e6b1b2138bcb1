package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// usualLease is the default of a worker's lease. What another one has is not known here.
const usualLease = 30 * time.Second

// suspected says of a message that workers died of, perhaps, how it is carried out.
func (x *explaining) suspected(ctx context.Context, topic *store.TopicStats, visible time.Time) {
	r := x.record
	died := counted(r.Rescues, "worker") + " died, or lost the lease, while at it"
	if !store.Solitary(r.Rescues) {
		x.say(SituationSuspect, visible,
			"%s; so a worker carries out only some like it at a time, beside other work, and after %d more deaths it is carried out alone",
			died, store.SolitaryAfter-r.Rescues)
		return
	}
	x.say(SituationSuspect, visible,
		"%s; so it is carried out alone, with nothing else at hand, and is a dead letter after %d more",
		died, max(store.LonelyRescues-r.Lonely, 1))
	x.then(time.Time{}, "the next worker that has nothing else at hand claims it, or makes way for it")
	if until := topic.Deaths.Until(usualLease); until.After(x.now(ctx)) {
		x.Why += fmt.Sprintf(
			"; but the last %d workers died with other messages of the topic at hand, which need be no message's fault",
			len(topic.Deaths))
		x.then(until, "if no more of them die until then, the next worker that has nothing else at hand claims it")
	}
}
