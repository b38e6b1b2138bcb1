package operate

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// topKeyAmong is how many messages are looked at for the key that most of them have.
const topKeyAmong = 100

// TopKey is the key that most of the messages have that wait first in a topic.
type TopKey struct {
	Key    []byte
	Of     int    // messages that have it
	Looked int    // messages that were looked at
	First  string // the id of the first that has it
}

// Share is the share of those that have the key.
func (k *TopKey) Share() float64 {
	if k.Looked == 0 {
		return 0
	}
	return float64(k.Of) / float64(k.Looked)
}

// FindTopKey looks at the first messages that wait in a topic.
func FindTopKey(ctx context.Context, i store.Inspector, topic string) (top TopKey, err error) {
	count, first := map[string]int{}, map[string]string{}
	looked := 0
	for r, err := range i.List(ctx, store.Filter{Topic: topic, State: store.Waiting, Limit: topKeyAmong}) {
		if err != nil {
			return TopKey{}, err
		}
		looked++
		if len(r.Key) == 0 {
			continue
		}
		key := string(r.Key)
		if count[key]++; count[key] == 1 {
			first[key] = r.ID
		}
		if count[key] > top.Of {
			top = TopKey{Key: r.Key, Of: count[key], First: first[key]}
		}
	}
	top.Looked = looked
	return top, nil
}

// MayHaveTopKey tells whether a topic has so old a backlog that a look at its keys is
// worth while.
func MayHaveTopKey(t *store.TopicStats) bool {
	return t.Order == store.OrderKey && t.Waiting >= minTopKey && t.OldestWaiting > topKeyAfter && t.Paused == nil
}

const (
	minTopKey   = 10
	topKeyAfter = 10 * time.Second
)

// RefusedForNow tells whether an attempt failed because the other side wants fewer, or
// later ones.
func RefusedForNow(a *store.Attempt) bool {
	return a.Throttled || a.Kind == string(policy.KindRateLimit)
}
