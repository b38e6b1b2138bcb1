package postgres

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// news notifies waiting claimers that something may be claimable: listeners of this process at
// once, those of others by NOTIFY. A notification is a hint. It is sent apart from the change
// itself, because PostgreSQL serialises the commits of transactions that notify; and at most
// every few milliseconds.
type news struct {
	mu        sync.Mutex
	listeners map[chan struct{}]map[string]bool // and their topics
	pending   map[int32]bool                    // topics to notify others of
	started   bool
	origin    string // of our own notifications, which tell us nothing

	hears   atomic.Bool // notifications arrive
	sending sync.Mutex  // held while a notification is on its way

	kick  chan struct{}      // pending is not empty
	ring  chan time.Duration // something is due that soon
	begun chan struct{}      // somebody listens
}

const (
	notifyPause = 5 * time.Millisecond
	alarmEvery  = 500 * time.Millisecond // how long a message delayed by another process may go unnoticed
	alarmLeast  = 2 * time.Millisecond
)

func (n *news) init() {
	n.listeners, n.pending = map[chan struct{}]map[string]bool{}, map[int32]bool{}
	n.kick, n.ring, n.begun = make(chan struct{}, 1), make(chan time.Duration, 64), make(chan struct{})
	n.origin = strconv.FormatUint(rand.Uint64(), 36)
}

// Wake tells listeners of all processes that there may be something to claim in
// topics: after the commit of a transaction that [Store.AppendTx] appended in.
func (s *listener) Wake(topics ...string) {
	for _, name := range topics {
		if t := s.topics.named(name); t != nil {
			s.wake(t.id)
		}
	}
}

// wake tells listeners of topics.
func (s *listener) wake(ids ...int32) {
	if len(ids) == 0 {
		return
	}
	n := &s.news
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		n.pending[id] = true
		if t := s.topics.numbered(id); t != nil && len(n.listeners) > 0 {
			n.tell(t.Name)
		}
	}
	if !s.cfg.PollOnly {
		poke(n.kick)
	}
}

// wakeOwn wakes the listeners of a topic in this process; of all topics where it is empty.
func (n *news) wakeOwn(topic string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tell(topic)
}

// tell is wakeOwn for callers that hold mu.
func (n *news) tell(topic string) {
	for ch, of := range n.listeners {
		if topic == "" || of[topic] {
			poke(ch)
		}
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it is full: the last wake-up is still pending
	}
}

// alarm makes sure that messages that are due then are noticed.
func (n *news) alarm(d time.Duration) {
	select {
	case n.ring <- d:
	default: // the loop is behind, and looks soon anyway
	}
}

func (n *news) alarmMicros(us int64) { n.alarm(time.Duration(us) * time.Microsecond) }

// wanted are the topics that there are listeners to.
func (n *news) wanted() (topics []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]bool{}
	for _, of := range n.listeners {
		maps.Copy(all, of)
	}
	return slices.Collect(maps.Keys(all))
}

// Listen implements [store.Waker].
func (s *listener) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	_, done, err := s.enter(ctx, "listen")
	if err != nil {
		return nil, err
	}
	defer done()
	ch, of := make(chan struct{}, 1), map[string]bool{}
	for _, t := range topics {
		if pawl.ValidTopic(t) == nil {
			of[t] = true
		}
	}
	n := &s.news
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[ch] = of
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listeners, ch)
	})
	if !n.started {
		n.started = true
		close(n.begun)
	}
	return ch, nil
}

// notifyOthers is one transaction that need not be durable.
const notifyOthers = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`

// notifyLoop sends pending notifications: the first at once, more after a pause.
func (s *listener) notifyLoop() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.news.kick:
		}
		if err := s.notifyPending(); err != nil {
			// A lost hint is harmless: waiting claimers also poll.
			s.pause(time.Second)
			continue
		}
		s.pause(notifyPause)
	}
}

// notifyPending sends pending notifications, and waits for one that is on its way: Close calls
// it so that the last appends of a process are not left to polling.
func (s *listener) notifyPending() error {
	s.news.sending.Lock()
	defer s.news.sending.Unlock()
	payload := s.news.take()
	if payload == s.news.origin {
		return nil
	}
	return s.notify(payload)
}

// take takes as many topics from pending as a notification holds. The rest is for
// the next one.
func (n *news) take() (payload string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	b.WriteString(n.origin)
	for id := range n.pending {
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(int(id)))
		delete(n.pending, id)
		if b.Len() > 7000 { // a payload has 8000 bytes at most
			break
		}
	}
	if len(n.pending) > 0 {
		poke(n.kick)
	}
	return b.String()
}

// notify uses a connection that is there already if it can: a process that only
// appends has none in the pool that acks use, and making one takes longer than
// the notification.
func (s *listener) notify(payload string) error {
	ctx, cancel := context.WithTimeout(s.ctx, pingLimit)
	defer cancel()
	pool := s.back
	if pool.Stat().IdleConns() == 0 && s.front.Stat().IdleConns() > 0 {
		pool = s.front
	}
	return s.call(ctx, pool, do(notifyOthers, textValue(s.channel()), textValue(payload)))
}

func (s *listener) channel() string { return "pawl_" + s.cfg.Schema }

// pause waits; false when the store ends.
func (s *listener) pause(d time.Duration) bool {
	select {
	case <-s.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// hear takes a notification of another process.
func (s *listener) hear(payload string) {
	words := strings.Fields(payload)
	if len(words) == 0 || words[0] == s.news.origin {
		return
	}
	for _, w := range words[1:] {
		id, err := strconv.Atoi(w)
		if err != nil {
			continue
		}
		name := "" // of a topic that this process does not know yet
		if t := s.topics.numbered(int32(id)); t != nil {
			name = t.Name
		}
		s.news.wakeOwn(name)
	}
}
