package mirror

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Tx is a type of transactions of a driver, made with [TxOf].
type Tx = backend.Tx

// TxOf names a type of transactions, for example pgx.Tx.
func TxOf[T any]() Tx { return backend.TxOf[T]() }

// CopiesAcks makes [store.AckTx] refuse: whether the transaction was committed, and the copy is to be acked, is unknown
// here.
func (s *Store) CopiesAcks() {}

// appendTx appends in a transaction of the caller. It is the primary's: its messages have
// no copies, because whether it was committed is unknown here, and count as missed. A topic
// whose appends go to the mirrored store is refused.
func (s *Store) appendTx(ctx context.Context, batch store.Batch[pawl.Message],
	do func(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error)) ([]store.Receipt, error) {
	routes, away, err := s.routes(ctx, batch.Items)
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
	receipts, err := do(ctx, batch)
	for i, r := range receipts {
		if topic := batch.Items[i].Topic; err == nil && r.Err == nil && r.DuplicateOf == "" &&
			routes[topic].stage == Dual {
			s.copies.note(topic, func(t *TopicStats) { t.Offered, t.Missed = t.Offered+1, t.Missed+1 })
		}
	}
	return receipts, err
}
