// Package bound estimates how many messages wait in topics that have a maximum, so that
// the stores of this module refuse appends by the same rule.
package bound

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// maxAge is how long the figures of a topic count, on the store's clock.
const maxAge = time.Second

// Reading is what a store counted in a topic.
type Reading struct {
	Waiting int64 // delayed messages included
	Left    int64 // messages that were ever acked, cancelled or purged, or died
}

// Look is how a store looks at its topics.
type Look struct {
	Now time.Time
	// Most is the maximum of a topic; 0 is none.
	Most func(topic string) int64
	// Read counts what is in a topic.
	Read func(topic string) (Reading, error)
}

// Meter has the estimates of a process. The zero value is ready. It is safe for
// concurrent use, and holds no lock while a store counts.
type Meter struct {
	mu     sync.Mutex
	topics map[string]*estimate
}

// estimate is what is known of a topic.
type estimate struct {
	Reading
	at      time.Time // of the reading
	stored  int64     // by this process, ever
	since   int64     // of stored: those that the reading may not have
	pending int64     // appends under way
	rate    float64   // messages that left, by second; 0: unknown
}

func (e *estimate) waiting() int64 { return e.Waiting + e.since + e.pending }

// full is the error of an append that finds no room for one more; nil if there is.
func (e *estimate) full(topic string, most int64) *store.TopicFullError {
	over := e.waiting() + 1 - most
	if over <= 0 {
		return nil
	}
	wait := store.UnknownRetryAfter
	if e.rate > 0 {
		seconds := min(float64(over)/e.rate, store.MaxRetryAfter.Seconds())
		wait = max(time.Duration(seconds*float64(time.Second)), store.MinRetryAfter)
	}
	return &store.TopicFullError{Topic: topic, RetryAfter: wait}
}

// Admit refuses those messages of a batch for which there is no room: their receipts get
// the error. If ctx is from [backend.Accepted] there is room for all. done is to be called
// when the append is over, with what it answered, nil if it failed.
func (m *Meter) Admit(ctx context.Context, look Look, items []pawl.Message, receipts []store.Receipt) (
	done func([]store.Receipt), err error) {
	var taken map[string]*estimate
	var full map[string]error
	last, most := "", int64(0)
	for i := range items {
		topic := items[i].Topic
		if receipts[i].Err != nil {
			continue
		}
		if topic != last {
			last, most = topic, look.Most(topic)
		}
		if most == 0 {
			continue
		}
		if taken == nil {
			taken, full = map[string]*estimate{}, map[string]error{}
		}
		if receipts[i].Err = full[topic]; receipts[i].Err != nil {
			continue
		}
		if taken[topic] == nil {
			if taken[topic], err = m.look(look, topic); err != nil {
				m.end(taken, items[:i], receipts, nil)
				return nil, err
			}
		}
		if why := m.take(taken[topic], topic, most, backend.IsAccepted(ctx)); why != nil {
			receipts[i].Err, full[topic] = why, why
		}
	}
	if taken == nil {
		return func([]store.Receipt) {}, nil
	}
	return func(answer []store.Receipt) { m.end(taken, items, receipts, answer) }, nil
}

// take takes room for one message.
func (m *Meter) take(e *estimate, topic string, most int64, always bool) *store.TopicFullError {
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := e.full(topic, most); why != nil && !always {
		return why
	}
	e.pending++
	return nil
}

// end ends an append: what it did not store takes no room any more.
func (m *Meter) end(taken map[string]*estimate, items []pawl.Message, admitted, answer []store.Receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range items {
		e := taken[items[i].Topic]
		if e == nil || admitted[i].Err != nil {
			continue
		}
		e.pending--
		if answer != nil && answer[i].Err == nil && answer[i].DuplicateOf == "" {
			e.stored++
			e.since++
		}
	}
}

// look returns the estimate of a topic, after counting again if that is due.
func (m *Meter) look(look Look, topic string) (*estimate, error) {
	m.mu.Lock()
	e := m.topics[topic]
	if e == nil {
		if m.topics == nil {
			m.topics = map[string]*estimate{}
		}
		e = &estimate{}
		m.topics[topic] = e
	}
	age, before := look.Now.Sub(e.at), e.stored
	m.mu.Unlock()
	if age >= 0 && age < maxAge {
		return e, nil
	}
	r, err := look.Read(topic)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if passed := look.Now.Sub(e.at).Seconds(); !e.at.IsZero() && passed > 0 {
		e.rate = max(0, float64(r.Left-e.Left)/passed)
	}
	e.Reading, e.at, e.since = r, look.Now, e.stored-before
	return e, nil
}

// Full returns the topics that have no room for one more message.
func (m *Meter) Full(look Look, topics ...string) ([]*store.TopicFullError, error) {
	var all []*store.TopicFullError
	for _, topic := range topics {
		most := look.Most(topic)
		if most == 0 {
			continue
		}
		e, err := m.look(look, topic)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		why := e.full(topic, most)
		m.mu.Unlock()
		if why != nil {
			all = append(all, why)
		}
	}
	return all, nil
}
