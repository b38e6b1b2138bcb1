package mirror

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestCountedInIsInTheQueue: nobody sees a copy that is counted in and is not in its
// queue yet. Close ends the queues when it has seen that nothing more is counted in.
func TestCountedInIsInTheQueue(t *testing.T) {
	const adders, each = 4, 2_000
	q := &queue{news: make(chan struct{}, 1)} // nobody takes from it
	c := &copier{cfg: Config{Count: adders * each, Bytes: DefaultBytes}, queues: []*queue{q},
		stats: map[string]*TopicStats{}}
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				c.add(pawl.Message{ID: "m", Topic: "t"})
			}
		})
	}
	apart := 0
	for counted := 0; counted < adders*each; {
		c.mu.Lock()
		q.mu.Lock()
		if counted = c.count; counted != len(q.waiting) {
			apart++
		}
		q.mu.Unlock()
		c.mu.Unlock()
	}
	wg.Wait()
	if apart > 0 {
		t.Errorf("%d times a copy was counted in and was in no queue", apart)
	}
}
