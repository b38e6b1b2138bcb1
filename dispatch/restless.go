package dispatch

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// restless counts how often a handler gave a message back without a pause, so that it does not get it again
// some hundred times a second.
type restless struct {
	mu    sync.Mutex
	times map[string]int // by id
}

const (
	firstRest   = 10 * time.Millisecond
	longestRest = time.Second
	maxRestless = 10_000 // that are counted
)

// pause is how long a message that was given back rests: what the handler asked for, or, from the second time on, more
// each time.
func (r *restless) pause(id string, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.times) >= maxRestless || r.times == nil {
		r.times = map[string]int{}
	}
	n := r.times[id]
	if r.times[id]++; n == 0 {
		return 0
	}
	return store.Doubled(firstRest, longestRest, n-1)
}
