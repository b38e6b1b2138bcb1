package codec

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Tx is a type of transactions of a driver, made with [TxOf]. The codec cannot import
// drivers, so the program lists their types in [Config.Tx]. Without that, AppendTx of
// the underlying store is used: it stores messages as a program without the codec
// would. These can be read, except a message with a header of the codec's own names.
type Tx interface {
	layer(s *Store, below store.Store) store.Store
}

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return txOf[T]{} }

type txOf[T any] struct{}

func (txOf[T]) layer(s *Store, below store.Store) store.Store {
	inner, ok := store.As[store.TxAppender[T]](s.inner)
	if !ok {
		return below
	}
	return &appender[T]{layer{s, below}, inner}
}

// appender encodes what is appended in the caller's transaction.
type appender[T any] struct {
	layer
	inner store.TxAppender[T]
}

// AppendTx implements [store.TxAppender]. Blobs are written at once: what they
// belong to may be rolled back, and then they wait for Collect. A transaction
// must not stay open for as long as Collect spares young blobs.
func (a *appender[T]) AppendTx(ctx context.Context, tx T, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return a.append(ctx, batch, func(ctx context.Context, encoded store.Batch[pawl.Message]) ([]store.Receipt, error) {
		return a.inner.AppendTx(ctx, tx, encoded)
	})
}
