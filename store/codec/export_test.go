package codec

import "github.com/pawl-dev/pawl/store"

// NewGreedy returns a codec that encodes bodies of eight bytes and more, also where that
// makes a message larger. The contract edits a letter with a shorter body, which has to
// have room for as many headers as a message may have.
func NewGreedy(inner store.Store, c Config, offload int) (*Store, error) {
	s, err := New(inner, c)
	if err == nil {
		s.encode.greedy, s.encode.min, s.encode.offload = true, 8, offload
	}
	return s, err
}
