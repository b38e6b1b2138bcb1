package sqlite

import (
	"context"
	"sync"
	"time"
)

// listening has the listeners that wait for something to become claimable.
type listening struct {
	mu        sync.Mutex
	channels  map[chan struct{}][]string // topics by listener
	watched   bool                       // the watcher runs
	finishing sync.WaitGroup
}

// What this process writes wakes its listeners at once. Writes of other processes are
// seen in a counter in shared memory. The counter is checked when the system reports a
// change of the file, or, if it cannot, every few milliseconds.
const (
	lookSoon    = time.Millisecond       // after a write, until it can be seen
	lookAtMost  = 3 * time.Millisecond   // while others write without a pause
	lookBlindly = 10 * time.Millisecond  // where the system reports no changes
	lookAnyway  = 250 * time.Millisecond // where it reports changes
)

// Listen implements [store.Waker].
func (s *core) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	s.listen.mu.Lock()
	defer s.listen.mu.Unlock()
	if err := s.usable(ctx, "listen"); err != nil {
		return nil, err
	}
	if !s.listen.watched {
		if err := s.startWatch(ctx); err != nil {
			return nil, wrap("listen", err)
		}
	}
	ch := make(chan struct{}, 1)
	s.listen.channels[ch] = append([]string(nil), topics...)
	context.AfterFunc(ctx, func() {
		s.listen.mu.Lock()
		defer s.listen.mu.Unlock()
		delete(s.listen.channels, ch)
	})
	return ch, nil
}

// wake notifies the listeners of the topics.
func (s *core) wake(topics map[string]bool) {
	if len(topics) == 0 {
		return
	}
	s.listen.mu.Lock()
	defer s.listen.mu.Unlock()
	for ch, of := range s.listen.channels {
		for _, t := range of {
			if topics[t] {
				select {
				case ch <- struct{}{}:
				default: // the last wake-up is still pending
				}
				break
			}
		}
	}
}

// startWatch starts the watcher; the caller holds the lock.
func (s *core) startWatch(ctx context.Context) error {
	c, err := connect(ctx, dsn(s.path, "mode=rw&_query_only=1&_busy_timeout=1000"))
	if err != nil {
		return err
	}
	s.listen.watched = true
	s.listen.channels = map[chan struct{}][]string{}
	s.listen.finishing.Go(func() {
		defer func() { _ = c.close() }()
		w := watcher{core: s, conn: c, topics: &topicCache{}, due: never}
		w.run()
	})
	return nil
}

// close waits for the watcher. The store is closing already: who listens from
// now on is refused.
func (l *listening) close() {
	l.mu.Lock()
	l.mu.Unlock() //nolint:staticcheck // who was about to listen has started the watcher now
	l.finishing.Wait()
}

// watcher notices what other processes wrote, and what falls due.
type watcher struct {
	*core
	conn    *conn
	topics  *topicCache
	version int64 // of the data, as last seen
	due     int64 // when the next message falls due
}

// run checks until there are no listeners or the store is closed. Errors are left to
// claims.
func (w *watcher) run() {
	written, unwatch := notice(w.path + "-wal")
	longest := lookBlindly
	if written != nil {
		defer unwatch()
		if !w.testClock {
			longest = lookAnyway
		}
	}
	pause := longest
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.needed() {
		select {
		case <-written:
			// The log is written before it is synchronised, and only then it counts:
			// what is seen now may be of the write before. So it checks again.
			pause = lookSoon
		case <-timer.C:
			pause = min(2*pause, longest)
		case <-w.closing:
			return
		}
		w.look()
		timer.Reset(min(pause, w.untilDue()))
	}
}

// untilDue is how long until something falls due.
func (w *watcher) untilDue() time.Duration {
	left := w.due - w.cfg.Now().UnixMicro()
	if left > lookAnyway.Microseconds() {
		return lookAnyway
	}
	return max(time.Duration(left)*time.Microsecond, time.Millisecond)
}

// look wakes listeners if the file has changed or something is due.
func (w *watcher) look() {
	cols, _, err := first(w.conn, "PRAGMA data_version")
	if err != nil {
		return
	}
	due := w.due <= w.cfg.Now().UnixMicro()
	if cols[0] != w.version || due {
		w.version = cols[0]
		w.rouse(due)
	}
}

// needed reports whether there are listeners; if not, the watcher ends, and the next
// listener starts another.
func (w *watcher) needed() bool {
	w.listen.mu.Lock()
	defer w.listen.mu.Unlock()
	w.listen.watched = len(w.listen.channels) > 0
	return w.listen.watched
}

// rouse wakes those whose topics have something that can be claimed. When
// something is due, a claim of any topic makes it happen.
func (w *watcher) rouse(due bool) {
	k, err := w.work(w.conn, w.topics)
	if err != nil {
		return
	}
	w.due = min(k.state.closedDue, k.state.leaseDue)
	woken := map[string]bool{}
	for _, name := range w.heard() {
		t := w.topics.byName[name]
		if t == nil {
			woken[name] = due // its first message may have been sent by SQL
			continue
		}
		if t.paused(k.now) {
			if !t.pause.Until.IsZero() {
				w.due = min(w.due, t.pause.Until.UnixMicro())
			}
			continue
		}
		if _, found, err := first(w.conn, hasSlot, t.number); err == nil && (found || due) {
			woken[name] = true
		}
	}
	w.wake(woken)
	if due && w.due <= k.now {
		w.due = k.now + lookAgain.Microseconds()
	}
}

// lookAgain is how long those who were woken have time to claim what is due.
const lookAgain = 100 * time.Millisecond

// heard returns the topics that have listeners.
func (w *watcher) heard() []string {
	w.listen.mu.Lock()
	defer w.listen.mu.Unlock()
	var names []string
	for _, of := range w.listen.channels {
		names = append(names, of...)
	}
	return names
}
