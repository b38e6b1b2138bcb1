package store

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// Outcome is the result of an Append for one message.
type Outcome string

// The outcomes.
const (
	Stored    Outcome = "stored"
	Duplicate Outcome = "duplicate" // of an earlier message: [Receipt.DuplicateOf]
	Refused   Outcome = "refused"   // not stored; a repetition is refused again
	Failed    Outcome = "failed"    // surely not stored; a repetition may succeed
	Unknown   Outcome = "unknown"   // it may be stored; a repetition may make a duplicate
)

// Outcome returns the outcome for the message of this receipt.
func (r *Receipt) Outcome() Outcome {
	switch {
	case r.Err == nil && r.DuplicateOf != "":
		return Duplicate
	case r.Err == nil:
		return Stored
	case errors.Is(r.Err, ErrUnknown):
		return Unknown
	case errors.Is(r.Err, ErrUnavailable), errors.Is(r.Err, ErrFull), IsTopicFull(r.Err):
		return Failed
	default:
		return Refused
	}
}

// Answers checks what an Append of n messages returned, and makes a receipt for every
// message: where there are none, each gets the error of the call. [ErrUnavailable] of a
// whole call means that the outcome is unknown.
func Answers(n int, receipts []Receipt, err error) []Receipt {
	if len(receipts) == n && (n > 0 || err == nil) {
		return receipts
	}
	if err == nil {
		err = fmt.Errorf("%d receipts for %d messages", len(receipts), n)
	}
	if uncertain(err) && !errors.Is(err, ErrUnknown) {
		err = &Error{Op: "append", Code: ErrUnknown, Err: err}
	}
	all := make([]Receipt, n)
	for i := range all {
		all[i].Err = err
	}
	return all
}

// ForGood reports whether the error of a message means that the store refuses it, and will
// refuse it again.
func ForGood(err error) bool {
	_, invalid := errors.AsType[*pawl.InvalidError](err)
	return invalid || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrInvalid)
}

// uncertain reports whether a call that failed with err may have taken effect.
func uncertain(err error) bool {
	if _, invalid := errors.AsType[*pawl.InvalidError](err); invalid || IsTopicFull(err) {
		return false
	}
	for _, sure := range []error{ErrClosed, ErrUnsupported, ErrSchema, ErrDenied, ErrFull, ErrCorrupt, ErrTooLarge,
		ErrInvalid, ErrConflict} {
		if errors.Is(err, sure) {
			return false
		}
	}
	return true
}
