package operate

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// peekAhead bounds how many messages are looked at to put them in order, and keptBody how long the bodies are that are
// kept meanwhile; a longer one is read again.
const (
	peekAhead = 1000
	keptBody  = 16 << 10
)

// queued is a message that waits, or holds up what does.
type queued struct {
	store.Record
	joined  int64
	cut     bool // its body is to be read again
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

// upcoming puts what waits of a topic in order. What is gone meanwhile is left out, if it has to be read again.
func upcoming(ctx context.Context, i store.Inspector, topic store.Topic, n int) (next []store.Record, err error) {
	all, err := inOrder(ctx, i, &store.TopicStats{Topic: topic})
	if err != nil {
		return nil, err
	}
	for _, g := range all[:min(n, len(all))] {
		if g.cut {
			g.Record, err = i.Get(ctx, g.ID)
			if errors.Is(err, store.ErrNotFound) || err == nil && (g.State != store.Waiting || g.Topic != topic.Name) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		next = append(next, g.Record)
	}
	return next, nil
}

// inOrder puts the waiting messages of a topic in order.
func inOrder(ctx context.Context, i store.Inspector, topic *store.TopicStats) ([]*queued, error) {
	var all []*queued
	head := map[string]*queued{} // by key, what came first
	for r, err := range i.List(ctx, store.Filter{Topic: topic.Name, Limit: peekAhead}) {
		if err != nil {
			return nil, err
		}
		if r.State != store.Waiting && !holdsUp(&r) {
			continue
		}
		g := &queued{Record: r, joined: joined(&r, topic).UnixMicro(), waiting: r.State == store.Waiting,
			cut: len(r.Body) > keptBody}
		if g.cut {
			g.Body = nil
		}
		// What holds the lane up is in front of all that waits.
		if first := head[string(r.Key)]; r.Key != nil &&
			(first == nil || first.waiting && (!g.waiting || g.joined < first.joined)) {
			head[string(r.Key)] = g
		}
		all = append(all, g)
	}
	var now, behind []*queued
	for _, g := range all {
		switch {
		case !g.waiting:
		case g.Key == nil || head[string(g.Key)] == g:
			now = append(now, g)
		default:
			behind = append(behind, g)
		}
	}
	return slices.Concat(now, behind), nil
}

// RefusedForNow reports whether an attempt failed because the other side wants fewer, or
// later ones.
func RefusedForNow(a *store.Attempt) bool {
	return a.Throttled || a.Kind == string(policy.KindRateLimit)
}
