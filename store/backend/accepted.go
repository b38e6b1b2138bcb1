package backend

import (
	"context"
)

type acceptedKey struct{}

// Accepted returns a context for an Append of messages that somebody was already told are
// accepted: no topic is too full for them. Whoever brings messages from one store to another
// uses it.
func Accepted(ctx context.Context) context.Context {
	return context.WithValue(ctx, acceptedKey{}, true)
}

// IsAccepted reports whether ctx is from [Accepted].
func IsAccepted(ctx context.Context) bool { return ctx.Value(acceptedKey{}) != nil }
