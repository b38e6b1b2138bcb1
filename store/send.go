package store

import (
	"context"
	"errors"
	"fmt"

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
