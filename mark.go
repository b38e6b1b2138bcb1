package pawl

import "time"

// MaxMark is how many bytes the value of a mark may have.
const MaxMark = 4 << 20

// AnyVersion, as [Mark.If], writes or removes a mark regardless of its version.
const AnyVersion int64 = -1

// Mark is a value to be written under a key in a scope, beside the messages: an
// entry of a ledger or a cache. See store.Shared.
type Mark struct {
	// Scope is what is listed and forgotten together, such as a run or a cache: 1
	// to [MaxKey] bytes.
	Scope string
	// Key is 1 to [MaxKey] bytes. Scope and key are bytes and may hold anything.
	Key string
	// Value has at most [MaxMark] bytes; it may be empty.
	Value []byte
	// For is how long the mark is kept, by the store's clock; 0 is until it is removed
	// or its scope is forgotten. An expired mark counts as absent.
	For time.Duration
	// If is the precondition of the write: 0, that there is no such mark, so that the
	// first writer wins; [AnyVersion], none; any other number, that the mark has that
	// version.
	If int64
	// Remove removes the mark of the key instead. It needs an If that is not 0.
	Remove bool
}

// Size is how many bytes the mark counts towards the limits of a call.
func (m *Mark) Size() int { return len(m.Scope) + len(m.Key) + len(m.Value) }

// Validate reports the first thing in the mark that no store accepts, as an
// [*InvalidError].
func (m *Mark) Validate() error {
	switch {
	case m.Scope == "" || len(m.Scope) > MaxKey:
		return Invalid("mark scope", "is %d bytes long; it has 1 to %d", len(m.Scope), MaxKey)
	case m.Key == "" || len(m.Key) > MaxKey:
		return Invalid("mark key", "is %d bytes long; it has 1 to %d", len(m.Key), MaxKey)
	case len(m.Value) > MaxMark:
		return Invalid("mark value", "is %d bytes long; the limit is %d", len(m.Value), MaxMark)
	case m.For < 0 || m.For > MaxDelay:
		return Invalid("mark", "is kept for %v; it goes from 0 to %v", m.For, MaxDelay)
	case m.If < AnyVersion:
		return Invalid("mark version", "is %d; it is -1, 0 or that of a mark", m.If)
	case m.Remove && m.If == 0:
		return Invalid("mark", "is to be removed if it is not there; name its version, or any")
	}
	return nil
}
