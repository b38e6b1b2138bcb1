package operate

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// peekAhead bounds how many messages are looked at, with their bodies, to put them in order.
const peekAhead = 1000

// mostLookups is how many messages are read again one by one.
const mostLookups = 20

// glimpse is what the order of a topic needs to know of a message.
type glimpse struct {
	id      string
	key     string
	keyed   bool
	joined  int64
	waiting bool
}

// Upcoming gives up to n messages of a topic that wait: those first that a worker
// may take now, then those behind others of their key, both by rank. It looks at no
// more than 1,000 messages. What one call appended with one key and several
// priorities it may take for another's head.
func Upcoming(ctx context.Context, i store.Inspector, topic store.Topic, n int) iter.Seq2[store.Record, error] {
	if topic.Order != store.OrderKey {
		return i.List(ctx, store.Filter{Topic: topic.Name, State: store.Waiting, Limit: n})
	}
	return func(yield func(store.Record, error) bool) {
		next, err := upcoming(ctx, i, topic, n)
		for _, r := range next {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Record{}, err)
		}
	}
}

// upcoming reads what comes next once more, so that it keeps no body but those that are
// asked for. What is gone meanwhile is left out.
func upcoming(ctx context.Context, i store.Inspector, topic store.Topic, n int) ([]store.Record, error) {
	ids, err := upcomingIDs(ctx, i, &store.TopicStats{Topic: topic})
	if err != nil {
		return nil, err
	}
	ids = ids[:min(n, len(ids))]
	read := reread
	if s, ok := i.(store.Store); len(ids) > mostLookups || ok && !store.Can(s, store.CanLookup) {
		read = relist // look-ups one by one take longer, or each reads the topic
	}
	found, err := read(ctx, i, topic.Name, ids)
	if err != nil {
		return nil, err
	}
	var next []store.Record
	for _, id := range ids {
		if r, ok := found[id]; ok {
			next = append(next, r)
		}
	}
	return next, nil
}

// reread looks up what waits of some messages of a topic.
func reread(ctx context.Context, i store.Inspector, topic string, ids []string) (map[string]store.Record, error) {
	found := make(map[string]store.Record, len(ids))
	for _, id := range ids {
		r, err := i.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case r.State == store.Waiting && r.Topic == topic:
			found[id] = r
		}
	}
	return found, nil
}

// relist does the same in one go, where a message is found by reading.
func relist(ctx context.Context, i store.Inspector, topic string, ids []string) (map[string]store.Record, error) {
	found := make(map[string]store.Record, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	for r, err := range i.List(ctx, store.Filter{Topic: topic, Limit: peekAhead}) {
		if err != nil {
			return nil, err
		}
		if _, had := found[r.ID]; !had && r.State == store.Waiting && slices.Contains(ids, r.ID) {
			found[r.ID] = r
		}
		if len(found) == len(ids) {
			break
		}
	}
	return found, nil
}

// upcomingIDs puts the waiting messages of a topic in order.
func upcomingIDs(ctx context.Context, i store.Inspector, topic *store.TopicStats) ([]string, error) {
	var all []glimpse
	head := map[string]int{} // by key, what came first
	for r, err := range i.List(ctx, store.Filter{Topic: topic.Name, Limit: peekAhead}) {
		if err != nil {
			return nil, err
		}
		if r.State != store.Waiting && !holdsUp(&r) {
			continue
		}
		g := glimpse{
			id: r.ID, key: string(r.Key), keyed: r.Key != nil,
			joined: joined(&r, topic).UnixMicro(), waiting: r.State == store.Waiting,
		}
		first, known := head[g.key]
		// What holds the lane up is in front of all that waits.
		if !known || all[first].waiting && (!g.waiting || g.joined < all[first].joined) {
			head[g.key] = len(all)
		}
		all = append(all, g)
	}
	var now, behind []string
	for at, g := range all {
		switch {
		case !g.waiting:
		case !g.keyed || head[g.key] == at:
			now = append(now, g.id)
		default:
			behind = append(behind, g.id)
		}
	}
	return slices.Concat(now, behind), nil
}

// RefusedForNow reports whether an attempt failed because the other side wants fewer, or
// later ones.
func RefusedForNow(a *store.Attempt) bool {
	return a.Throttled || a.Kind == string(policy.KindRateLimit)
}
