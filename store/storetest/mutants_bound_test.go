package storetest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// answering changes what an append answers.
func answering(change func(b *broken, batch store.Batch[pawl.Message], rs []store.Receipt) error) breakage {
	return func(b *broken) store.Store {
		b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
			rs, err := b.Store.Append(ctx, batch)
			rs = slices.Clone(rs)
			if err == nil {
				err = change(b, batch, rs)
			}
			return rs, err
		}
		return b
	}
}

// tooMuch returns the error of a message that was refused as too much, or nil.
func tooMuch(r *store.Receipt) *store.TopicFullError {
	e, _ := errors.AsType[*store.TopicFullError](r.Err)
	return e
}

// refusing changes every receipt of a message that was refused as too much.
func refusing(change func(b *broken, m *pawl.Message, r *store.Receipt) error) breakage {
	return answering(func(b *broken, batch store.Batch[pawl.Message], rs []store.Receipt) error {
		for i := range rs {
			if tooMuch(&rs[i]) != nil {
				if err := change(b, &batch.Items[i], &rs[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bounding replaces what Full tells.
type bounding struct {
	*broken
	store.Topics
	tell func(topics []string) []*store.TopicFullError
}

func (b bounding) Full(_ context.Context, topics ...string) ([]*store.TopicFullError, error) {
	return b.tell(topics), nil
}

func telling(tell func(topics []string) []*store.TopicFullError) breakage {
	return func(b *broken) store.Store {
		topics, _ := store.As[store.Topics](b.Store)
		return bounding{b, topics, tell}
	}
}

// accepts appends what which chooses as if it had been accepted before.
func accepts(which func(*pawl.Message) bool) breakage {
	return func(b *broken) store.Store {
		b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
			if slices.ContainsFunc(batch.Items, func(m pawl.Message) bool { return which(&m) }) {
				ctx = backend.Accepted(ctx)
			}
			return b.Store.Append(ctx, batch)
		}
		return b
	}
}

func boundMutants() []mutant {
	fullOnce := map[*broken]map[string]error{}
	return []mutant{
		{"fullRefusesTheCall", refusing(func(_ *broken, _ *pawl.Message, r *store.Receipt) error { return r.Err }),
			[]string{"FullTopicConcernsNoOther"}},
		{"fullIsForGood", refusing(func(_ *broken, _ *pawl.Message, r *store.Receipt) error {
			r.Err = &pawl.InvalidError{Field: "topic", Why: "is full"}
			return nil
		}), []string{"FullTopicRefuses", "FullIsRemembered"}},
		{"fullSaysNotWhen", refusing(func(_ *broken, m *pawl.Message, r *store.Receipt) error {
			r.Err = &store.TopicFullError{Topic: m.Topic}
			return nil
		}), []string{"FullTopicRefuses"}},
		{"fullIsStored", refusing(func(b *broken, m *pawl.Message, _ *store.Receipt) error {
			_, err := b.Store.Append(backend.Accepted(context.Background()), store.NewBatch(*m))
			return err
		}), []string{"FullTopicRefuses", "FullTopicRefusesTheRest"}},
		{"fullTakesTheRest", answering(fullTakesTheRest), []string{"FullTopicRefusesTheRest"}},
		{"fullNeverEnds", answering(func(b *broken, batch store.Batch[pawl.Message], rs []store.Receipt) error {
			if fullOnce[b] == nil {
				fullOnce[b] = map[string]error{}
			}
			for i := range rs {
				if e := tooMuch(&rs[i]); e != nil {
					fullOnce[b][e.Topic] = e
				}
				rs[i].Err = fullOnce[b][batch.Items[i].Topic]
			}
			return nil
		}), []string{"RoomIsSeenWithinASecond"}},
		{"delayedIsFree", accepts(func(m *pawl.Message) bool { return m.Delay > 0 }), []string{"DelayedTakesRoom"}},
		{"keyedIsFree", accepts(func(m *pawl.Message) bool { return m.Key != nil }),
			[]string{"FullTopicRefusesTheRest"}},
		{"acceptedIsBounded", func(b *broken) store.Store {
			b.onAppend = func(_ context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
				return b.Store.Append(context.Background(), batch)
			}
			return b
		}, []string{"AcceptedIsNeverTooMuch"}},
		{"fullIsForgotten", func(b *broken) store.Store {
			b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
				return b.Store.Append(ctx, store.NewBatch(batch.Items...))
			}
			return b
		}, []string{"FullIsRemembered"}},
		{"emitIsBounded", emitIsBounded, []string{"EmitIsNeverTooMuch"}},
		{"fullUntold", telling(func([]string) []*store.TopicFullError { return nil }), []string{"FullIsTold"}},
		{"allToldAsFull", telling(func(topics []string) (all []*store.TopicFullError) {
			for _, name := range topics {
				all = append(all, &store.TopicFullError{Topic: name, RetryAfter: store.UnknownRetryAfter})
			}
			return all
		}), []string{"FullIsTold"}},
	}
}

// fullTakesTheRest stores what follows a message that was refused.
func fullTakesTheRest(b *broken, batch store.Batch[pawl.Message], rs []store.Receipt) error {
	first := slices.IndexFunc(rs, func(r store.Receipt) bool { return tooMuch(&r) != nil })
	for i := first + 1; first >= 0 && i < len(rs); i++ {
		if tooMuch(&rs[i]) == nil {
			continue
		}
		got, err := b.Store.Append(backend.Accepted(context.Background()), store.NewBatch(batch.Items[i]))
		if err != nil {
			return err
		}
		rs[i] = got[0]
	}
	return nil
}

// emitIsBounded refuses a settlement that emits to a topic that is full.
func emitIsBounded(b *broken) store.Store {
	bounded, _ := store.As[store.Topics](b.Store)
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		for i := range batch.Items {
			for _, m := range batch.Items[i].Emit {
				full, err := bounded.Full(ctx, m.Topic)
				if err != nil {
					return nil, err
				}
				if len(full) > 0 {
					return []store.Refusal{{Index: i, Err: full[0]}}, nil
				}
			}
		}
		return b.Store.Settle(ctx, batch)
	}
	return b
}
