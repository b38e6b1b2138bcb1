package store

import "context"

// Coder is the optional interface of a store that keeps bodies in a form other than the
// one they were sent in.
type Coder interface {
	// Show decodes a record that was read from the underlying store, as the listings of
	// this one do. A body that cannot be decoded stays as it is stored, and a header says
	// why.
	Show(ctx context.Context, r Record) (Record, error)
}
