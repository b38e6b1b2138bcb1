package observe

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// How long handlers of keys take. A key is data, not a label: the gauge has the slowest
// key of a topic, and [Metrics.SlowKeys] says which one it is.
var slowestKey = description{"pawl_slowest_key_p99_seconds",
	"p99 of what a handler takes, of the slowest key of a topic, over the last 5 to 10 minutes: of the 64 keys that take the most time, those with 10 attempts or more. Which key it is: in the log, at level debug.",
	[]string{labelTopic}}

const (
	slowKeysKept  = 64              // of a topic
	slowKeyRuns   = 10              // fewer attempts make no p99
	slowKeyWindow = 5 * time.Minute // two of them are looked at: this one and the one before
	slowSteps     = 4               // bounds in every doubling: a p99 is right by 19 %
	slowBounds    = 23*slowSteps + 1
)

// SlowKey is a key whose handlers take long.
type SlowKey struct {
	Topic, Key string
	P99        time.Duration // at most 19 % too long; not below a millisecond
	Attempts   int           // that it is taken from
}

// slowKeys keeps, for every topic, the keys that take the most time. Those that have
// more than a 64th of all the time of the topic are surely among them (it is the
// algorithm Space-Saving, weighted by time), and what it costs does not depend on
// how many keys there are.
type slowKeys struct {
	mu     sync.Mutex
	topics map[string]*keysOfTopic
}

type keysOfTopic struct {
	began time.Time // of the window
	keys  []*slowOne
	by    map[string]*slowOne
}

// slowOne is a key. The time that it took is its own, and perhaps that of the one
// whose place it got.
type slowOne struct {
	key       string
	time      time.Duration
	now, past [slowBounds]uint32 // attempts by what they took, in this window and the one before
}

func newSlowKeys() *slowKeys {
	return &slowKeys{topics: map[string]*keysOfTopic{}}
}

// note records attempts; keys and durations correspond, and attempts without a key are
// skipped.
func (s *slowKeys) note(topic string, keys [][]byte, took []time.Duration, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[topic]
	if t == nil {
		t = &keysOfTopic{began: at, by: map[string]*slowOne{}}
		s.topics[topic] = t
	}
	t.rotate(at)
	for i, key := range keys {
		if key != nil {
			t.note(key, max(took[i], 0))
		}
	}
}

func (t *keysOfTopic) note(key []byte, took time.Duration) {
	one := t.by[string(key)]
	if one == nil {
		one = t.place()
		one.key = string(key)
		t.by[one.key] = one
	}
	one.time += took
	one.now[slowBound(took)]++
}

// place returns a new one's place: that of the key that took the least, if all are
// taken.
func (t *keysOfTopic) place() *slowOne {
	if len(t.keys) < slowKeysKept {
		one := &slowOne{}
		t.keys = append(t.keys, one)
		return one
	}
	least := slices.MinFunc(t.keys, func(a, b *slowOne) int { return cmp.Compare(a.time, b.time) })
	delete(t.by, least.key)
	*least = slowOne{time: least.time}
	return least
}

// rotate begins a new window when it is time. What was long ago counts less and less.
func (t *keysOfTopic) rotate(at time.Time) {
	windows := int64(at.Sub(t.began) / slowKeyWindow)
	if windows <= 0 {
		return
	}
	t.began = t.began.Add(time.Duration(windows) * slowKeyWindow)
	for _, one := range t.keys {
		one.past = one.now
		if one.now = [slowBounds]uint32{}; windows > 1 {
			one.past = one.now
		}
		one.time >>= min(windows, 62)
	}
}

// slowBound is the number of the bound that a duration is not above: the first is a
// millisecond, and the last has all that is longer than any lease.
func slowBound(took time.Duration) int {
	if took <= time.Millisecond {
		return 0
	}
	return min(int(math.Ceil(math.Log2(float64(took)/float64(time.Millisecond))*slowSteps)), slowBounds-1)
}

// p99 is the bound that 99 % of the attempts are not above, and how many there were.
func (o *slowOne) p99() (time.Duration, int) {
	n := 0
	for i := range o.now {
		n += int(o.now[i]) + int(o.past[i])
	}
	above := n / 100 // so many may be
	for i := slowBounds - 1; i > 0; i-- {
		if above -= int(o.now[i]) + int(o.past[i]); above < 0 {
			return time.Duration(math.Exp2(float64(i)/slowSteps) * float64(time.Millisecond)), n
		}
	}
	return time.Millisecond, n
}

// slowest returns the slowest key of every topic that has one.
func (s *slowKeys) slowest(at time.Time) (all []SlowKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.topics {
		t.rotate(at)
		worst := SlowKey{Topic: name}
		for _, one := range t.keys {
			if p, n := one.p99(); n >= slowKeyRuns && p > worst.P99 {
				worst.Key, worst.P99, worst.Attempts = one.key, p, n
			}
		}
		if worst.Attempts > 0 {
			all = append(all, worst)
		}
	}
	return all
}

// RanKeys records how long handlers of messages with a key took.
func (m *Metrics) RanKeys(topic string, keys [][]byte, took []time.Duration) {
	m.slow.note(m.bounds.value(labelTopic, topic), keys, took, time.Now())
}

// SlowKeys returns the slowest key of every topic that has one, in no order.
func (m *Metrics) SlowKeys() []SlowKey { return m.slow.slowest(time.Now()) }
