package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// broken is a store of which some methods are replaced. Mutants are run by one
// goroutine and need no locks.
type broken struct {
	store.Store
	now      func() time.Time
	onAppend func(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error)
	onClaim  func(context.Context, []store.Want, store.Lease) ([]pawl.Delivery, error)
	onExtend func(context.Context, time.Duration, ...pawl.Token) ([]pawl.Token, error)
	onSettle func(context.Context, store.Batch[store.Settlement]) ([]store.Refusal, error)
}

func (b *broken) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if b.onAppend != nil {
		return b.onAppend(ctx, batch)
	}
	return b.Store.Append(ctx, batch)
}

func (b *broken) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	if b.onClaim != nil {
		return b.onClaim(ctx, wants, terms)
	}
	return b.Store.Claim(ctx, wants, terms)
}

func (b *broken) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if b.onExtend != nil {
		return b.onExtend(ctx, by, tokens...)
	}
	return b.Store.Extend(ctx, by, tokens...)
}

func (b *broken) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if b.onSettle != nil {
		return b.onSettle(ctx, batch)
	}
	return b.Store.Settle(ctx, batch)
}

func (b *broken) Unwrap() store.Store { return b.Store }

// breakage breaks a store.
type breakage func(*broken) store.Store

// appending changes messages before they are appended.
func appending(change func(*pawl.Message)) breakage {
	return func(b *broken) store.Store {
		b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
			batch.Items = slices.Clone(batch.Items)
			for i := range batch.Items {
				change(&batch.Items[i])
			}
			return b.Store.Append(ctx, batch)
		}
		return b
	}
}

// settling changes settlements before they are settled.
func settling(change func(*store.Settlement)) breakage {
	return func(b *broken) store.Store {
		b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
			batch.Items = slices.Clone(batch.Items)
			for i := range batch.Items {
				change(&batch.Items[i])
			}
			return b.Store.Settle(ctx, batch)
		}
		return b
	}
}

// claimed changes what a claim returns.
func claimed(change func(b *broken, ds []pawl.Delivery) []pawl.Delivery) breakage {
	return func(b *broken) store.Store {
		b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
			ds, err := b.Store.Claim(ctx, wants, terms)
			return change(b, ds), err
		}
		return b
	}
}

// wanting changes what a claim asks for.
func wanting(change func(*store.Want, *store.Lease)) breakage {
	return func(b *broken) store.Store {
		b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
			wants = slices.Clone(wants)
			for i := range wants {
				change(&wants[i], &terms)
			}
			return b.Store.Claim(ctx, wants, terms)
		}
		return b
	}
}

// all applies several breakages, the last one outermost.
func all(breakages ...breakage) breakage {
	return func(b *broken) store.Store {
		for _, one := range breakages[:len(breakages)-1] {
			b = &broken{Store: one(b), now: b.now}
		}
		return breakages[len(breakages)-1](b)
	}
}

// choosing claims the heads of all lanes, lets choose put them into another
// order, and gives back what is too much. So runs are of one; a suspect stays
// alone.
func choosing(choose func([]pawl.Delivery)) breakage {
	return func(b *broken) store.Store {
		b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
			if len(wants) != 1 || wants[0].Limit == 0 {
				return b.Store.Claim(ctx, wants, terms)
			}
			limit := wants[0].Limit
			wants = []store.Want{{Topic: wants[0].Topic, Limit: store.MaxBatch, Run: 1}}
			ds, err := b.Store.Claim(ctx, wants, terms)
			if err != nil || len(ds) < 2 {
				return ds, err
			}
			choose(ds)
			if len(ds) > limit {
				err = b.giveBack(ctx, ds[limit:])
				ds = ds[:limit]
			}
			return ds, err
		}
		return b
	}
}

// giveBack releases deliveries.
func (b *broken) giveBack(ctx context.Context, ds []pawl.Delivery) error {
	var items []store.Settlement
	for _, d := range ds {
		items = append(items, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Release})
	}
	_, err := b.Store.Settle(ctx, store.NewBatch(items...))
	return err
}

// hiding claims, and hides lanes: their messages are never seen.
func hiding(hide func(b *broken, d *pawl.Delivery) bool) breakage {
	return claimed(func(b *broken, ds []pawl.Delivery) []pawl.Delivery {
		hidden := map[int64]bool{}
		return slices.DeleteFunc(ds, func(d pawl.Delivery) bool {
			hidden[d.Token.Lane] = hidden[d.Token.Lane] || hide(b, &d)
			return hidden[d.Token.Lane]
		})
	})
}
