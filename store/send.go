package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl"
)

// Send appends messages to s under a fresh batch id and returns an error for the messages
// that were not stored: nil means that each is stored, or is a duplicate of an earlier one.
// The error names each message by its index; errors.Is and errors.As find the causes
// ([pawl.InvalidError], [ErrUnavailable], [ErrUnknown] …). Messages that it does not name
// were stored.
//
// It is the short form of Append for a caller that does not repeat calls. One that does
// gives the messages ids, or keeps the batch and calls Append.
func Send(ctx context.Context, s Store, msgs ...pawl.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	receipts, err := s.Append(ctx, NewBatch(msgs...))
	return sent(msgs, receipts, err)
}

// SendTx appends messages in the caller's own transaction, as [Send] does without one: they exist if, and only if, it
// commits. After an error, roll the transaction back: a part of the messages may be in it. A store without
// transactions of that type returns [ErrUnsupported]; see [TxStore].
func SendTx[T any](ctx context.Context, s Store, tx T, msgs ...pawl.Message) error {
	appender, ok := As[TxStore[T]](s)
	if !ok {
		return &Error{Op: "send", Code: ErrUnsupported, Err: fmt.Errorf("it has no transactions of type %v",
			reflect.TypeFor[T]())}
	}
	if len(msgs) == 0 {
		return nil
	}
	receipts, err := appender.AppendTx(ctx, tx, NewBatch(msgs...))
	return sent(msgs, receipts, err)
}

// AckTx acks a delivery in the handler's own transaction, beside the rows that it writes: the message is done if, and
// only if, that commits. The handler returns nil after the commit; if it returns nil without one, the message comes
// again. An error of [pawl.ErrLeaseLost] means that somebody else has the message: roll back. What such a delivery
// emits is sent in the transaction ([SendTx]); one that emits, marks or holds is refused with [ErrInvalid], and by a
// store without transactions of that type with [ErrUnsupported]; see [TxStore].
func AckTx[T any](ctx context.Context, s Store, tx T, d *pawl.Delivery) error {
	acker, ok := As[TxStore[T]](s)
	_, copied := As[interface{ CopiesAcks() }](s)
	switch {
	case copied:
		return &Error{Op: "ack", Code: ErrUnsupported, Err: errors.New("another store has a copy of the message"),
			Hint: "return nil after the commit, as without a mirror"}
	case !ok:
		return &Error{Op: "ack", Code: ErrUnsupported, Err: fmt.Errorf("it acks in no transactions of type %v",
			reflect.TypeFor[T]())}
	case len(d.Emitted())+len(d.Marked()) > 0 || d.HoldFor() > 0:
		return &Error{Op: "ack", Code: ErrInvalid, Err: errors.New("the delivery emits, marks or holds"),
			Hint: "send and write what it should in the transaction"}
	}
	err := acker.AckTx(ctx, tx, d.Token)
	if err == nil {
		d.SetAckedInTx()
	}
	return err
}

// sent makes one error of what an append returned.
func sent(msgs []pawl.Message, receipts []Receipt, err error) error {
	if err != nil && len(receipts) != len(msgs) {
		return err
	}
	var errs []error
	for i, r := range Answers(len(msgs), receipts, err) {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("message %d (%s): %w", i, cmp.Or(msgs[i].Topic, "no topic"), r.Err))
		}
	}
	if len(errs) == 0 {
		return err
	}
	return fmt.Errorf("send: %w", errors.Join(errs...))
}
