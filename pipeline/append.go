package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// AppendAll appends messages, and repeats those that failed, in their order, until all are stored or refused for good.
// One whose outcome was unknown may be stored twice unless it has an id or a unique key. failed is told why before
// each repetition; refuse gets those that the store never takes, and its error ends the call.
func AppendAll(ctx context.Context, s store.Store, msgs []pawl.Message, failed func(error),
	refuse func(msgs []pawl.Message, why error) error) error {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	for pause := first; len(msgs) > 0; pause = min(2*pause, longest) {
		receipts, err := s.Append(ctx, store.NewBatch(msgs...))
		var left, refused []pawl.Message
		var why, never error
		wait := pause
		for i, r := range store.Answers(len(msgs), receipts, err) {
			switch r.Outcome() {
			case store.Stored, store.Duplicate:
			case store.Refused:
				refused, never = append(refused, msgs[i]), r.Err
			default:
				left, why = append(left, msgs[i]), r.Err
				if full, ok := errors.AsType[*store.TopicFullError](r.Err); ok {
					wait = max(wait, full.RetryAfter)
				}
			}
		}
		if len(refused) > 0 {
			if err := refuse(refused, never); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			failed(why)
			if err := store.Sleep(ctx, wait); err != nil {
				return errors.Join(err, why)
			}
		}
		msgs = left
	}
	return nil
}
