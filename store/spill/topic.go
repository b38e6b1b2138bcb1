package spill

import (
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// topic is the state of both stores for one topic. Store.mu guards it.
type topic struct {
	name string
	Totals

	// waiting: it may have rows in the fallback store. looked is when it was last seen that
	// there are none.
	waiting bool
	looked  time.Time
	looking chan struct{}     // closed when the look that is on its way has ended
	failed  time.Time         // when a look last failed
	spills  int               // how often it was noted that there are rows
	latched map[string]string // keys that are known to have rows, and the id of the last one

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
}

// topic returns the state of a topic, made if need be.
func (s *Store) topic(name string) *topic {
	t := s.topics[name]
	if t == nil {
		t = &topic{name: name, taken: true, latched: map[string]string{}}
		s.topics[name] = t
	}
	return t
}

// isDown reports whether new messages are not tried now.
func (t *topic) isDown() bool { return t.down && time.Now().Before(t.probeAt) }

// took says that the primary store has taken something of the topic. It returns
// whether rows were resting.
func (t *topic) took() bool {
	was := t.resting
	if t.err != nil {
		t.again = time.Now()
	}
	t.down, t.resting, t.taken, t.tries, t.err = false, false, true, 0, nil
	return was
}

// failing says that a call failed of which the primary store took nothing. It
// returns whether the fault is with the messages rather than with the store: it
// failed before, then took something, and now fails again. fresh: the messages are
// new ones, not rows.
func (s *Store) failing(t *topic, fresh, answered bool, err error) (specific bool) {
	specific = t.taken && !t.again.IsZero() && time.Since(t.again) < s.cfg.pace.retryFirst
	if !t.taken {
		t.resting, t.down = true, t.down || fresh
		s.postpone(t)
	}
	t.answered, t.err, t.taken = answered, err, false
	return specific
}

// postpone puts off the next probe.
func (s *Store) postpone(t *topic) {
	t.probeAt = time.Now().Add(jitter(store.Doubled(s.cfg.pace.probeFirst, s.cfg.pace.probeMax, t.tries)))
	t.tries++
}

// jitter spreads a duration by a fifth to both sides.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
