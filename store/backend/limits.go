package backend

import (
	"errors"

	"github.com/pawl-dev/pawl/store"
)

// ResultBytes bounds the bytes of what one ScanResults returns: a single result that is
// larger is returned alone.
const ResultBytes = 16 << 20

// AllSuspects is the [store.Lease.Suspects] of a caller that only moves messages and runs no
// handlers: suspects come regardless of their rescues.
const AllSuspects = 1 << 40

// NotEmpty is the error of a RemoveTopic of a topic with messages.
func NotEmpty(name string) error {
	return &store.Error{Op: "remove topic " + name, Code: store.ErrConflict, Err: errors.New("it has messages, or dead letters")}
}
