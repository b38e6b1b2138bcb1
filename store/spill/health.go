package spill

import (
	"time"

	"github.com/pawl-dev/pawl/store"
)

// health is the state of the primary store for one topic. Store.mu guards it.
type health struct {
	// down: two calls in a row failed and nothing was taken in between. New messages
	// are not tried then, but for a probe now and then.
	down bool
	// resting: the same of rows that were to be brought back; the compensator tries
	// few of them, now and then. So it does while the topic is down.
	resting  bool
	answered bool  // the primary store itself reported the failure: it is reachable
	err      error // of the last failure
	taken    bool  // something was taken since the last failure
	// again is when something was last taken after a failure: a message that fails soon
	// after that is itself the cause.
	again   time.Time
	tries   int // probes in vain
	probeAt time.Time
	rows    bool // there is a topic for it in the fallback store
}

// health returns that of a topic, made if need be.
func (s *Store) health(topic string) *health {
	h := s.topics[topic]
	if h == nil {
		h = &health{taken: true}
		s.topics[topic] = h
	}
	return h
}

// took says that the primary store has taken something of the topic. It returns
// whether rows were resting.
func (h *health) took() bool {
	was := h.resting
	if h.err != nil {
		h.again = time.Now()
	}
	h.down, h.resting, h.taken, h.tries, h.err = false, false, true, 0, nil
	return was
}

// failing says that a call failed of which the primary store took nothing. It
// returns whether the fault is with the messages rather than with the store: it
// failed before, then took something, and now fails again. fresh: the messages are
// new ones, not rows.
func (s *Store) failing(h *health, fresh, answered bool, err error) (specific bool) {
	specific = h.taken && !h.again.IsZero() && time.Since(h.again) < s.cfg.RetryFirst
	if !h.taken {
		h.resting, h.down = true, h.down || fresh
		s.postpone(h)
	}
	h.answered, h.err, h.taken = answered, err, false
	return specific
}

// postpone puts off the next probe.
func (s *Store) postpone(h *health) {
	h.probeAt = time.Now().Add(s.jitter(store.Doubled(s.cfg.ProbeFirst, s.cfg.ProbeMax, h.tries)))
	h.tries++
}

// jitter spreads a duration by a fifth to both sides.
func (s *Store) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*s.cfg.Rand()))
}
