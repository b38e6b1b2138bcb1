package kafka

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// sweep opens closed lanes that are due, and ends leases that were not settled in time.
func (e *engine) sweep(now int64) {
	for len(e.timed.Lanes) > 0 && e.timed.Lanes[0].until <= now {
		if l := e.timed.Lanes[0]; l.state == held {
			e.rescue(l)
		} else {
			e.timed.Pop()
			e.reopen(l, 0, now)
		}
	}
}

// rescue ends a lease that was not settled. Only the first message of the run can be
// the cause.
func (e *engine) rescue(l *lane) {
	l.of.topic.rescues++
	lease, until := l.lease, l.until
	e.unlease(l)
	why := "lease ended unsettled"
	if until >= lease.hard {
		why = "hard deadline passed unsettled"
	}
	l.giveBack()
	if f := l.head; f != nil {
		t := f.troubled()
		t.rescues++
		t.rescued = until
		if lease.alone {
			t.lonely++
		} else {
			l.of.topic.died = l.of.topic.died.Add(lease.owner, time.Unix(0, until))
		}
		e.clearTry(f)
		t.reason = why
		t.history = append(t.history, store.Attempt{
			Attempt: t.attempts, StartedAt: time.Unix(0, lease.started), EndedAt: time.Unix(0, until),
			Worker: lease.owner, Kind: string(pawl.KindRescue), Error: why, Action: "rescue",
		})
	}
	e.reopen(l, 0, until)
}

// Listen implements [store.Waker].
func (s *Store) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	if err := s.usable(ctx, "listen"); err != nil {
		return nil, err
	}
	wants := make([]store.Want, len(topics))
	for i, t := range topics {
		wants[i].Topic = t
	}
	if err := s.subscribe(ctx, wants); err != nil {
		return nil, err
	}
	return s.engine.listen(ctx, topics)
}

func (e *engine) listen(ctx context.Context, topics []string) (<-chan struct{}, error) {
	if _, err := e.enter("listen"); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	ch, of := make(chan struct{}, 1), map[string]bool{}
	for _, t := range topics {
		of[t] = true
	}
	e.listeners[ch] = of
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, ch)
	})
	e.setAlarm()
	return ch, nil
}

// wake notifies the listeners of a topic.
func (e *engine) wake(topic string) {
	for ch, of := range e.listeners {
		if of[topic] {
			signal(ch)
		}
	}
}

// setAlarm makes sure that the next due lane or lease is processed even without calls.
func (e *engine) setAlarm() {
	if len(e.timed.Lanes) == 0 || e.isClosed {
		return
	}
	next := e.timed.Lanes[0].until
	if e.alarm != nil && e.alarmAt <= next {
		return // it rings early enough and sets itself again
	}
	if e.alarm != nil {
		e.alarm.Stop()
	}
	e.alarmAt = next
	wait := max(time.Duration(next-e.now().UnixNano()), time.Millisecond)
	e.alarm = time.AfterFunc(wait, e.ring)
}

func (e *engine) ring() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alarm = nil
	if !e.isClosed {
		e.sweep(e.now().UnixNano())
		e.setAlarm()
	}
}
