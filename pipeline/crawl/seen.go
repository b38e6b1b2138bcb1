package crawl

import (
	"crypto/sha256"
	"net/url"
	"sync"
)

// maxSeen bounds the URLs that a process remembers: some 20 MB.
const maxSeen = 400_000

// seen are URLs that this process has got to carry out, so that they are in the store for sure. Links to them need not
// be emitted, which saves most of the work of a store that would find them there. What is not remembered is found by
// the store.
type seen struct {
	mu   sync.Mutex
	urls map[urlKey]struct{}
}

// urlKey stands for a page: URLs that differ in nothing but a session id have the same.
type urlKey [16]byte

func keyOf(u *url.URL) urlKey {
	sum := sha256.Sum256([]byte(withoutSession(u)))
	return urlKey(sum[:16])
}

func (s *seen) add(key urlKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.urls == nil || len(s.urls) >= maxSeen {
		s.urls = map[urlKey]struct{}{}
	}
	s.urls[key] = struct{}{}
}

func (s *seen) has(key urlKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.urls[key]
	return ok
}
