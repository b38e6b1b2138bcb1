package crawl

import (
	"crypto/sha256"
	"sync"
)

// maxSeen bounds the URLs that a process remembers: some 20 MB.
const maxSeen = 400_000

// seen are URLs that this process has got to carry out, so that they are in the store for sure. Links to them need not
// be emitted, which saves most of the work of a store that would find them there. What is not remembered is found by
// the store.
type seen struct {
	mu   sync.Mutex
	urls map[[16]byte]struct{}
}

// urlKey stands for a URL.
func urlKey(url string) [16]byte {
	sum := sha256.Sum256([]byte(url))
	return [16]byte(sum[:16])
}

func (s *seen) add(key [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.urls == nil || len(s.urls) >= maxSeen {
		s.urls = map[[16]byte]struct{}{}
	}
	s.urls[key] = struct{}{}
}

func (s *seen) has(key [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.urls[key]
	return ok
}
