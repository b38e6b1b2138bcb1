package watch

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

const (
	topKeyAmong = 100 // messages that are looked at
	minTopKey   = 10  // that wait
	topKeyAfter = 10 * time.Second
)

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

// FindTopKey looks at the first messages that wait in a topic, if it has so old a backlog that its keys are worth a
// look; else it finds none.
func FindTopKey(ctx context.Context, i store.Inspector, t *store.TopicStats) (top TopKey, err error) {
	if t.Order != store.OrderKey || t.Waiting < minTopKey || t.OldestWaiting <= topKeyAfter || t.Paused != nil {
		return TopKey{}, nil
	}
	count, first := map[string]int{}, map[string]string{}
	looked := 0
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Waiting, Limit: topKeyAmong}) {
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
