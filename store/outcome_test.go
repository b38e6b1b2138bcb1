package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func TestOutcomes(t *testing.T) {
	cause := errors.New("broker 3 does not answer")
	twice := store.Receipt{ID: "b", DuplicateOf: "a"}
	if got := twice.Outcome(); got != store.Duplicate {
		t.Errorf("a duplicate is %s", got)
	}
	for _, c := range []struct {
		err  error
		want store.Outcome
	}{
		{nil, store.Stored},
		{store.ErrUnknown, store.Unknown},
		{store.ErrUnavailable, store.Failed},
		{&store.Error{Op: "append", Code: store.ErrUnavailable, Err: cause}, store.Failed},
		{&store.Error{Op: "append", Code: store.ErrUnknown, Err: cause}, store.Unknown},
		{&store.Error{Op: "append", Code: store.ErrUnknown, Err: fmt.Errorf("%w: %w", store.ErrUnavailable, cause)},
			store.Unknown},
		{store.ErrFull, store.Failed},
		{&store.TopicFullError{Topic: "mail", RetryAfter: time.Second}, store.Failed},
		{fmt.Errorf("send: %w", &store.TopicFullError{Topic: "mail"}), store.Failed},
		{&pawl.InvalidError{Field: "body", Why: "is too long"}, store.Refused},
		{store.ErrTooLarge, store.Refused},
		{cause, store.Refused},
	} {
		if got := (&store.Receipt{Err: c.err}).Outcome(); got != c.want {
			t.Errorf("%v is %s; want %s", c.err, got, c.want)
		}
	}
}

func TestAnswersOfACall(t *testing.T) {
	given := []store.Receipt{{ID: "a"}, {ID: "b", Err: store.ErrUnavailable}}
	for _, c := range []struct {
		name     string
		n        int
		receipts []store.Receipt
		err      error
		want     store.Outcome // of the last message
	}{
		{"all is well", 2, []store.Receipt{{}, {}}, nil, store.Stored},
		{"receipts and an error", 2, given, store.ErrUnavailable, store.Failed},
		{"an error alone", 2, nil, &store.Error{Op: "append", Code: store.ErrUnavailable}, store.Unknown},
		{"the time is over", 2, nil, context.DeadlineExceeded, store.Unknown},
		{"an error of no kind", 2, nil, errors.New("broken pipe"), store.Unknown},
		{"it says that nothing is stored", 2, nil, &store.Error{Op: "append", Code: store.ErrFull}, store.Failed},
		{"the topic is full", 2, nil, &store.TopicFullError{Topic: "mail"}, store.Failed},
		{"closed", 2, nil, &store.Error{Op: "append", Code: store.ErrClosed}, store.Refused},
		{"denied", 2, nil, &store.Error{Op: "append", Code: store.ErrDenied}, store.Refused},
		{"too few receipts", 3, given, nil, store.Unknown},
	} {
		got := store.Answers(c.n, c.receipts, c.err)
		if len(got) != c.n || got[c.n-1].Outcome() != c.want {
			t.Errorf("%s: %d receipts, the last one %s (%v); want %d and %s", c.name, len(got),
				got[len(got)-1].Outcome(), got[len(got)-1].Err, c.n, c.want)
		}
		if c.err != nil && c.receipts == nil && !errors.Is(got[0].Err, c.err) {
			t.Errorf("%s: %v does not say why: %v", c.name, got[0].Err, c.err)
		}
	}
	if got := store.Answers(2, given, store.ErrUnavailable); got[0].Outcome() != store.Stored {
		t.Errorf("the first is %s", got[0].Outcome())
	}
	if got := store.Answers(0, nil, nil); len(got) != 0 {
		t.Errorf("no messages, but %d receipts", len(got))
	}
}
