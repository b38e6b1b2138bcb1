package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// AwayTopic is a topic of which messages are in another store.
type AwayTopic struct {
	Topic, Stage string
	Moved        bool   // all of it; otherwise it is on its way
	Target       string // URL of the other store, without a password
}

// Away are the topics of which messages are in another store, by name. A store without a
// state has none.
func Away(ctx context.Context, s store.Store) (found []AwayTopic, err error) {
	plans, err := mirror.OpenPlans(s)
	if err != nil {
		return nil, nil
	}
	all, err := plans.List(ctx)
	for _, p := range all {
		stage := p.Stage
		if stage == mirror.Closing {
			stage = p.From
		}
		if stage == mirror.Draining || stage == mirror.Moved || stage == mirror.Returning {
			found = append(found, AwayTopic{p.Topic, string(stage), stage == mirror.Moved, p.Target})
		}
	}
	slices.SortFunc(found, func(a, b AwayTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return found, err
}

// There says how to ask the other store.
func (a *AwayTopic) There() string { return "use --store " + a.Target }

// MayBeAway says in which other stores a message may be that is not known here; nothing
// where there is none.
func MayBeAway(ctx context.Context, s store.Store) (why, next string) {
	away, err := Away(ctx, s)
	if err != nil || len(away) == 0 { // it is a courtesy
		return "", ""
	}
	var topics, hints []string
	for i := range away {
		topics = append(topics, fmt.Sprintf("topic %s has moved to %s", away[i].Topic, away[i].Target))
		hints = append(hints, away[i].There())
	}
	return "not in this store; " + strings.Join(topics, ", ") + ", where it may be",
		strings.Join(slices.Compact(hints), ", or ")
}
