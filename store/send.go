package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl"
)

// Send appends messages to s under a fresh batch id and returns an error for whatever
// was not stored: nil means that every message is stored, or a duplicate of one that
// was stored before. The error names each message by its index; errors.Is and errors.As
// find the causes ([pawl.InvalidError], [ErrUnavailable], [ErrUnknown] …). Messages
// that it does not name were stored.
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
// transactions of that type returns [ErrUnsupported]; see [TxAppender].
func SendTx[T any](ctx context.Context, s Store, tx T, msgs ...pawl.Message) error {
	appender, ok := As[TxAppender[T]](s)
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

// sent makes one error of what an append returned.
func sent(msgs []pawl.Message, receipts []Receipt, err error) error {
	if err != nil && len(receipts) != len(msgs) {
		return err
	}
	var errs []error
	for i, r := range Answers(len(msgs), receipts, err) {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("message %d (%s): %w", i, msgs[i].Topic, r.Err))
		}
	}
	if len(errs) == 0 {
		return err
	}
	return fmt.Errorf("send: %w", errors.Join(errs...))
}
