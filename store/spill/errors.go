package spill

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/store"
)

// LostError says that messages were not accepted by any level. The caller still has
// them, and may repeat the call with the same batch id: messages that were accepted are
// not sent again. The receipts that come with it tell which messages are concerned, and
// whether one may be stored all the same (store.ErrUnknown).
type LostError struct {
	Messages int // that no level accepted
	Of       int // messages of the call
	// Why each level did not accept the first of them; nil where there is no such
	// level.
	Primary, Diverted, Fallback error
}

// Why the primary store was not tried.
var (
	errBehind = errors.New("not tried: rows of the key wait in the fallback store")
	errAside  = errors.New("not tried: the primary store took nothing of the topic when the call was made")
)

func (e *LostError) Error() string {
	diverted := "there is none"
	if e.Diverted != nil {
		diverted = e.Diverted.Error()
	}
	return fmt.Sprintf("%d of %d messages were not taken: primary store: %v; dead-letter route: %s; fallback store: %v",
		e.Messages, e.Of, e.Primary, diverted, e.Fallback)
}

// Unwrap returns the reasons.
func (e *LostError) Unwrap() []error {
	reasons := []error{e.Primary, e.Diverted, e.Fallback}
	return slices.DeleteFunc(reasons, func(err error) bool { return err == nil })
}

func closedError(op string) error { return &store.Error{Op: op, Code: store.ErrClosed} }
