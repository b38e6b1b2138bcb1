package codec

import "github.com/pawl-dev/pawl/store"

// NewGreedy returns a codec that encodes whatever it can, also where that makes a
// message larger, and offloads from the first byte on, unless offload is larger.
func NewGreedy(inner store.Store, c Config, offload int) (*Store, error) {
	s, err := New(inner, c)
	if err == nil {
		s.encode.greedy, s.encode.min, s.encode.offload = true, 1, offload
	}
	return s, err
}
