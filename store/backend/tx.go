package backend

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Tx is a type of transactions of a driver, made with [TxOf]. A decorator cannot import
// drivers, so the program lists their types for it.
type Tx interface {
	layer(inner, below store.Store, over AppendOver) store.Store
}

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return txOf[T]{} }

// AppendOver is what a decorator does to a batch before and after do appends it.
type AppendOver func(ctx context.Context, batch store.Batch[pawl.Message],
	do func(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error)) ([]store.Receipt, error)

// OverTx puts layers over inner in which over does its part in each AppendTx, for the types
// of transactions that inner has.
func OverTx(inner store.Store, over AppendOver, txs ...Tx) store.Store {
	below := inner
	for _, tx := range txs {
		below = tx.layer(inner, below, over)
	}
	return below
}

type txOf[T any] struct{}

func (txOf[T]) layer(inner, below store.Store, over AppendOver) store.Store {
	if appender, ok := store.As[store.TxStore[T]](inner); ok {
		return &txLayer[T]{below, appender, over}
	}
	return below
}

// txLayer is a store whose AppendTx goes through over.
type txLayer[T any] struct {
	store.Store
	inner store.TxStore[T]
	over  AppendOver
}

// Unwrap returns the store below.
func (l *txLayer[T]) Unwrap() store.Store { return l.Store }

// AppendTx implements [store.TxStore].
func (l *txLayer[T]) AppendTx(ctx context.Context, tx T, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return l.over(ctx, batch, func(ctx context.Context, changed store.Batch[pawl.Message]) ([]store.Receipt, error) {
		return l.inner.AppendTx(ctx, tx, changed)
	})
}

// AckTx implements [store.TxStore].
func (l *txLayer[T]) AckTx(ctx context.Context, tx T, token pawl.Token) error {
	return l.inner.AckTx(ctx, tx, token)
}
