package store

import (
	"context"

	"github.com/pawl-dev/pawl"
)

// Tx is a type of transactions of a driver, made with [TxOf]. A decorator cannot import
// drivers, so the program lists their types for it.
type Tx interface {
	layer(inner, below Store, over AppendOver) Store
}

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return txOf[T]{} }

// AppendOver is what a decorator does to a batch before and after do appends it.
type AppendOver func(ctx context.Context, batch Batch[pawl.Message],
	do func(context.Context, Batch[pawl.Message]) ([]Receipt, error)) ([]Receipt, error)

// OverTx puts layers over inner in which over does its part in each AppendTx, for the types
// of transactions that inner has.
func OverTx(inner Store, over AppendOver, txs ...Tx) Store {
	below := inner
	for _, tx := range txs {
		below = tx.layer(inner, below, over)
	}
	return below
}

type txOf[T any] struct{}

func (txOf[T]) layer(inner, below Store, over AppendOver) Store {
	if appender, ok := As[TxStore[T]](inner); ok {
		return &txLayer[T]{below, appender, over}
	}
	return below
}

// txLayer is a store whose AppendTx goes through over.
type txLayer[T any] struct {
	Store
	inner TxStore[T]
	over  AppendOver
}

// Unwrap returns the store below.
func (l *txLayer[T]) Unwrap() Store { return l.Store }

// AppendTx implements [TxStore].
func (l *txLayer[T]) AppendTx(ctx context.Context, tx T, batch Batch[pawl.Message]) ([]Receipt, error) {
	return l.over(ctx, batch, func(ctx context.Context, changed Batch[pawl.Message]) ([]Receipt, error) {
		return l.inner.AppendTx(ctx, tx, changed)
	})
}

// AckTx implements [TxStore].
func (l *txLayer[T]) AckTx(ctx context.Context, tx T, token pawl.Token) error {
	return l.inner.AckTx(ctx, tx, token)
}
