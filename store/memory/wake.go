package memory

import (
	"context"
	"time"
)

// Listen implements [store.Waker].
func (s *core) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	now, err := s.enter(ctx, "listen")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ch, of := make(chan struct{}, 1), map[string]bool{}
	for _, t := range topics {
		of[t] = true
	}
	s.listeners[ch] = of
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, ch)
	})
	s.setAlarm(now)
	return ch, nil
}

// wake notifies the listeners of a topic.
func (s *core) wake(topic string) {
	for ch, of := range s.listeners {
		if of[topic] {
			select {
			case ch <- struct{}{}:
			default: // it has not read the last one yet
			}
		}
	}
}

// setAlarm makes sure that what is due next is noticed even without calls. Without
// listeners it does nothing.
func (s *core) setAlarm(now time.Time) {
	if len(s.listeners) == 0 || len(s.due.Lanes) == 0 {
		return
	}
	next := s.due.Lanes[0].until
	if s.alarm != nil && !s.alarmAt.After(next) {
		return // it rings early enough, and sets itself again
	}
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.alarmAt = next
	s.alarm = time.AfterFunc(max(next.Sub(now), time.Millisecond), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.alarm = nil
		if !s.closed {
			now := s.now()
			s.sweep(now)
			s.setAlarm(now)
		}
	})
}
