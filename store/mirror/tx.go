package mirror

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Tx is a type of transactions of a driver, made with [TxOf]. The mirror cannot import
// drivers, so the program lists their types in [Config.Tx].
type Tx interface {
	layer(s *Store, below store.Store) store.Store
}

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return txOf[T]{} }

type txOf[T any] struct{}

func (txOf[T]) layer(s *Store, below store.Store) store.Store {
	inner, ok := store.As[store.TxAppender[T]](s.primary)
	if !ok {
		return below
	}
	return &appender[T]{layer{s, below}, inner}
}

// appender appends to the primary in the caller's transaction.
type appender[T any] struct {
	layer
	inner store.TxAppender[T]
}

// AppendTx implements [store.TxAppender]. The transaction is the primary's: its
// messages have no copies, because whether it was committed is unknown here, and count
// as missed. A topic whose appends go to the mirrored store is refused.
func (a *appender[T]) AppendTx(ctx context.Context, tx T, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	routes, away, err := a.routes(ctx, batch.Items)
	if err != nil {
		return nil, err
	}
	if away {
		return nil, &store.Error{
			Op: "append", Code: store.ErrUnsupported,
			Err:  errors.New("a topic has moved to another store, which knows nothing of this transaction"),
			Hint: "append outside of the transaction, or roll the topic back",
		}
	}
	receipts, err := a.inner.AppendTx(ctx, tx, batch)
	for i, r := range receipts {
		if topic := batch.Items[i].Topic; err == nil && r.Err == nil && r.DuplicateOf == "" &&
			routes[topic].stage == Dual {
			a.copies.note(topic, func(t *TopicStats) { t.Offered, t.Missed = t.Offered+1, t.Missed+1 })
		}
	}
	return receipts, err
}
