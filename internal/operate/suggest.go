package operate

import (
	"context"
	"iter"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

// mostCompleted bounds the ids that a shell is offered.
const mostCompleted = 50

// TopicsLike returns the names of topics that begin like that.
func TopicsLike(ctx context.Context, opened store.Store, begun string) []string {
	topics, ok := store.As[store.Topics](opened)
	if !ok {
		return nil
	}
	stats, _ := topics.Stats(ctx)
	return namesLike(stats, begun, func(t *store.TopicStats) string { return t.Name })
}

// WorkersLike returns the names of workers that begin like that.
func WorkersLike(ctx context.Context, opened store.Store, begun string) []string {
	all, _ := Workers(ctx, opened)
	return namesLike(all, begun, func(w *Worker) string { return w.Owner })
}

// PipelinesLike returns the names of pipelines that begin like that.
func PipelinesLike(ctx context.Context, opened store.Store, begun string) []string {
	all, _ := Pipelines(ctx, opened)
	return namesLike(all, begun, func(p *Pipeline) string { return p.Name })
}

func namesLike[T any](all []T, begun string, name func(*T) string) (names []string) {
	for i := range all {
		if n := name(&all[i]); strings.HasPrefix(n, begun) {
			names = append(names, n)
		}
	}
	return names
}

// MessagesLike returns the ids of messages, dead letters included, that begin like that, each with its topic.
func MessagesLike(ctx context.Context, opened store.Store, begun string) []string {
	l, ok := store.As[store.Inspector](opened)
	if !ok {
		return nil
	}
	return append(idsLike(l.List(ctx, store.Filter{}), begun), DeadLike(ctx, opened, begun)...)
}

// DeadLike returns the ids of dead letters that begin like that, each with its topic.
func DeadLike(ctx context.Context, opened store.Store, begun string) []string {
	d, ok := store.As[store.DeadLetters](opened)
	if !ok {
		return nil
	}
	return idsLike(d.Dead(ctx, store.DeadFilter{Brief: true}), begun)
}

func idsLike(records iter.Seq2[store.Record, error], begun string) (ids []string) {
	for r, err := range records {
		if err != nil || len(ids) == mostCompleted {
			break
		}
		if strings.HasPrefix(r.ID, begun) {
			ids = append(ids, r.ID+"\t"+r.Topic)
		}
	}
	return ids
}
