package spill

import (
	"errors"
	"fmt"
	"strings"

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
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d messages were not taken: primary store: %v; dead-letter route: ", e.Messages,
		e.Of, e.Primary)
	if e.Diverted != nil {
		fmt.Fprint(&b, e.Diverted)
	} else {
		b.WriteString("there is none")
	}
	fmt.Fprintf(&b, "; fallback store: %v", e.Fallback)
	return b.String()
}

// Unwrap returns the reasons.
func (e *LostError) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Primary, e.Diverted, e.Fallback} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func closedError(op string) error { return &store.Error{Op: op, Code: store.ErrClosed} }
