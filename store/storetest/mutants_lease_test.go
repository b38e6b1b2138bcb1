package storetest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func leaseMutants() []mutant {
	return []mutant{
		{"noFence", noFence, []string{"SettleAfterLossIsFenced", "ExtendOfALostLeaseChangesNothing"}},
		{"tokenReuse", tokenReuse, []string{"SettleAfterLossIsFenced"}},
		{"lostIsNotReported", lostIsNotReported, []string{"SettleAfterLossIsFenced", "SettleTwiceIsFenced",
			"UnknownTokenIsStale"}},
		{"lostIsAnError", lostIsAnError, []string{"SettleAfterLossIsFenced"}},
		{"extendPastDeadline", extendPastDeadline, []string{"ExtendStopsAtTheDeadline"}},
		{"extendNothing", extendNothing, []string{"ExtendProlongs", "ExtendOfOneExtendsTheRun",
			"ExtendReportsWhatIsLost"}},
		{"extendStopsAtTheFirstLost", extendStopsAtTheFirstLost, []string{"ExtendReportsWhatIsLost"}},
		{"leaseOfAnHour", wanting(func(_ *store.Want, l *store.Lease) { l.For = time.Hour }), []string{"LeaseEnds"}},
		{"ackedHandedOutAgain", ackedHandedOutAgain, []string{"AckIsFinal"}},
		{"twoLeases", twoLeases, []string{"OneLiveLease"}},
		{"waitedFromEnqueued", claimed(func(b *broken, ds []pawl.Delivery) []pawl.Delivery {
			for i := range ds {
				ds[i].Waited = b.now().Sub(ds[i].EnqueuedAt)
			}
			return ds
		}), []string{"WaitedCountsFromVisible"}},
		{"deadlineUntold", claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
			for i := range ds {
				ds[i].Deadline = ds[i].LeaseFor
			}
			return ds
		}), []string{"DeliveryTellsItsTimes"}},
	}
}

// noFence knows the message by its id, and lets any token settle it.
func noFence(b *broken) store.Store {
	current := map[string]pawl.Token{}
	ids := map[pawl.Token]string{}
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for _, d := range ds {
			current[d.ID], ids[d.Token] = d.Token, d.ID
		}
		return ds, err
	}
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		batch.Items = slices.Clone(batch.Items)
		for i := range batch.Items {
			batch.Items[i].Token = current[batch.Items[i].ID]
		}
		return b.Store.Settle(ctx, batch)
	}
	b.onExtend = func(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
		tokens = slices.Clone(tokens)
		for i := range tokens {
			tokens[i] = current[ids[tokens[i]]]
		}
		return b.Store.Extend(ctx, by, tokens...)
	}
	return b
}

// tokenReuse gives a message the same token under every lease.
func tokenReuse(b *broken) store.Store {
	first, inner := map[string]pawl.Token{}, map[pawl.Token]pawl.Token{}
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for i := range ds {
			d := &ds[i]
			if _, known := first[d.ID]; !known {
				first[d.ID] = d.Token
			}
			inner[first[d.ID]] = d.Token
			d.Token = first[d.ID]
		}
		return ds, err
	}
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		batch.Items = slices.Clone(batch.Items)
		for i := range batch.Items {
			batch.Items[i].Token = inner[batch.Items[i].Token]
		}
		return b.Store.Settle(ctx, batch)
	}
	return b
}

func lostIsNotReported(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		return slices.DeleteFunc(refused, func(r store.Refusal) bool { return errors.Is(r.Err, pawl.ErrLeaseLost) }),
			err
	}
	return b
}

func lostIsAnError(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		if len(refused) > 0 {
			return nil, refused[0].Err
		}
		return refused, err
	}
	return b
}

// extendPastDeadline keeps what was extended out of sight for as long as the
// extension says, whatever the deadline.
func extendPastDeadline(b *broken) store.Store {
	until := map[int64]time.Time{}
	b = hiding(func(b *broken, d *pawl.Delivery) bool { return until[d.Token.Lane].After(b.now()) })(b).(*broken)
	b.onExtend = func(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
		for _, tok := range tokens {
			until[tok.Lane] = b.now().Add(by)
		}
		return b.Store.Extend(ctx, by, tokens...)
	}
	return b
}

func extendNothing(b *broken) store.Store {
	b.onExtend = func(context.Context, time.Duration, ...pawl.Token) ([]pawl.Token, error) { return nil, nil }
	return b
}

func extendStopsAtTheFirstLost(b *broken) store.Store {
	b.onExtend = func(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
		for i := range tokens {
			if lost, err := b.Store.Extend(ctx, by, tokens[i]); len(lost) > 0 || err != nil {
				return tokens[i:], err
			}
		}
		return nil, nil
	}
	return b
}

// ackedHandedOutAgain reads from an old snapshot now and then.
func ackedHandedOutAgain(b *broken) store.Store {
	var last *pawl.Delivery
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		if len(ds) == 0 && last != nil && err == nil {
			ds = []pawl.Delivery{*last}
		} else if len(ds) > 0 {
			last = &ds[0]
		}
		return ds, err
	}
	return b
}

// twoLeases hands out what somebody else holds, when there is nothing else.
func twoLeases(b *broken) store.Store {
	held := map[string]pawl.Delivery{}
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for _, d := range ds {
			held[d.ID] = d
		}
		for _, d := range held {
			if len(ds) == 0 {
				return []pawl.Delivery{d}, err
			}
		}
		return ds, err
	}
	return b
}
