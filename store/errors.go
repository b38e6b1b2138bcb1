package store

import (
	"errors"
	"slices"
	"strings"
)

// The kinds of errors of a store. An error of a store wraps one of these, where one
// applies, and the driver's own error.
var (
	ErrClosed      = errors.New("store is closed")
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrUnavailable = errors.New("store is not reachable") // transient: the same call may succeed later
	ErrLost        = errors.New("store is lost")          // for good: what is open is not the store any more
	ErrUnknown     = errors.New("outcome is unknown")     // of one message, in a receipt: it may or may not be stored
	ErrNoAnswer    = errors.New("no answer")              // with one of those two: inferred locally, not confirmed
	ErrUnsupported = errors.New("not supported by this store")
	ErrSchema      = errors.New("schema is missing or of another version")
	ErrDenied      = errors.New("access denied")
	ErrFull        = errors.New("no space left")
	ErrCorrupt     = errors.New("data is damaged")
	ErrTooLarge    = errors.New("call is too large")
	ErrInvalid     = errors.New("invalid call") // a programming error: repeating the call fails again
)

// Error says what a store was doing, what is wrong, and what to do about it.
// Its text never holds a password.
type Error struct {
	Op   string // append, claim, extend, settle, open, migrate …
	Code error  // one of the sentinels above; nil where none fits
	Err  error  // the cause; nil where there is none beyond Code
	Hint string // the next step for a person; may be empty; [Hint] finds it in a chain, the text does not have it
}

func (e *Error) Error() string {
	parts := []string{e.Op}
	if e.Code != nil {
		parts = append(parts, e.Code.Error())
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the code and the cause.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Code, e.Err}, func(err error) bool { return err == nil })
}
