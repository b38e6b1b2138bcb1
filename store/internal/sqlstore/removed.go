package sqlstore

import "sync"

// Removed remembers up to which cursor the results of topics were removed, so that
// a removal does not look through what is left of other topics again and again. It
// may forget. The zero value is empty.
type Removed struct {
	mu   sync.Mutex
	done map[string]int64
}

// From is where a removal up to a cursor begins. A cursor below what was removed is
// of another schema: everything is looked at again.
func (r *Removed) From(topic string, upTo int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done[topic] > upTo {
		delete(r.done, topic)
	}
	return r.done[topic]
}

// Note says that nothing of a topic is left between two cursors.
func (r *Removed) Note(topic string, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[string]int64{}
	}
	if r.done[topic] == from {
		r.done[topic] = to
	}
}
