package store

import "context"

// Pinger is the optional interface of a store whose Clock is that of this machine, so
// that Clock does not show whether a server answers.
type Pinger interface {
	// Ping tells whether a server of the store answers.
	Ping(ctx context.Context) error
}
