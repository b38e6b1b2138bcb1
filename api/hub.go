package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// hub wakes leases that wait. For each topic one goroutine listens to the store; what it hears
// wakes the lease that waits longest, and that one the next if there is more: a crowd that waits
// costs the store no more than one.
type hub struct {
	api     *API
	waker   store.Waker // nil: the store wakes nobody
	mu      sync.Mutex
	topics  map[string]*audience
	waiting int
	turns   int
}

// audience is the leases that wait for a topic, in the order in which they came.
type audience struct {
	waiters []*waiter
	left    time.Time // since when there are none
}

// waiter is a lease that waits.
type waiter struct {
	topics []string
	woken  chan struct{} // of capacity one
	awake  bool          // it looks, or is about to
	again  bool          // there was news meanwhile
}

// How often a topic is looked at without news, and how long one stays listened to without
// anybody who waits.
const (
	lookHeard   = time.Second
	lookUnheard = 200 * time.Millisecond
	lingerFor   = 10 * time.Second
)

func newHub(a *API) *hub {
	h := &hub{api: a, topics: map[string]*audience{}}
	h.waker, _ = store.As[store.Waker](a.store)
	return h
}

// join adds a lease; nil if too many wait.
func (h *hub) join(topics []string) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting >= MaxWaiting {
		return nil
	}
	h.waiting++
	w := &waiter{topics: topics, woken: make(chan struct{}, 1), awake: true}
	for _, name := range topics {
		t := h.topics[name]
		if t == nil {
			t = &audience{}
			h.topics[name] = t
			h.api.wg.Go(func() { h.listen(name, t) })
		}
		t.waiters = append(t.waiters, w)
	}
	return w
}

// leave takes a lease out; more reports whether others should look for what it left.
func (h *hub) leave(w *waiter, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
	for _, name := range w.topics {
		t := h.topics[name]
		t.waiters = slices.DeleteFunc(t.waiters, func(o *waiter) bool { return o == w })
		if len(t.waiters) == 0 {
			t.left = time.Now()
		}
		if more || w.again || len(w.woken) > 0 {
			t.wake()
		}
	}
}

// rest is called by a lease that found nothing: false if there was news meanwhile.
func (h *hub) rest(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.again {
		w.again = false
		return false
	}
	w.awake = false
	return true
}

// wake lets a lease look at a topic.
func (h *hub) wake(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[topic]; t != nil {
		t.wake()
	}
}

// wake wakes the first that sleeps. The caller holds mu.
func (t *audience) wake() {
	for _, w := range t.waiters {
		if !w.awake {
			w.awake = true
			w.woken <- struct{}{} // it has room: only sleepers get one
			return
		}
	}
	if len(t.waiters) > 0 {
		t.waiters[0].again = true
	}
}

// listen wakes the leases of a topic, until nobody has waited for a while.
func (h *hub) listen(name string, t *audience) {
	ctx, cancel := context.WithCancel(h.api.ctx)
	defer cancel()
	var news <-chan struct{}
	every := lookUnheard
	if h.waker != nil {
		if ch, err := h.waker.Listen(ctx, name); err == nil {
			news, every = ch, lookHeard
			h.wake(name) // what came before it listened
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-news:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		if len(t.waiters) == 0 && time.Since(t.left) > lingerFor {
			delete(h.topics, name)
			h.mu.Unlock()
			return
		}
		t.wake()
		h.mu.Unlock()
	}
}

// turn is where a claim of several topics begins, so that each is first now and then.
func (h *hub) turn(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns++
	return h.turns % n
}
