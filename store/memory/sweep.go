package memory

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// sweep processes everything that is due: delayed messages join their lanes, closed
// lanes open, ended leases are rescued, retained messages are forgotten.
func (s *core) sweep(now time.Time) {
	for len(s.due.Lanes) > 0 && !s.due.Lanes[0].until.After(now) {
		l := s.due.Lanes[0]
		switch {
		case l.delayed:
			m := l.queue[0]
			delete(s.lanes, l.id)
			l.move(nil)
			s.place(l.topic, m, l.until, l.until)
		case l.lease != nil:
			s.rescue(l)
		default:
			s.open(l)
		}
	}
	for len(s.retained) > 0 && s.find(now, s.retained[0].ID) != s.retained[0] {
		s.retained = s.retained[1:]
	}
}

// rescue ends a lease that was not settled. Only the first message of the run can be
// the cause.
func (s *core) rescue(l *lane) {
	m := l.queue[0]
	a := sqlstore.RescuedAttempt(m.Attempts, l.lease.Owner, l.lease.started, l.until, l.lease.hard)
	if l.lease.Alone {
		m.Lonely++
	} else {
		l.topic.totals.Deaths = l.topic.totals.Deaths.Add(l.lease.Owner, l.until)
	}
	m.Rescues++
	m.Reason = a.Error
	l.topic.totals.Rescues++
	m.History = append(m.History, a)
	at := l.until
	if m.Lonely >= store.LonelyRescues {
		l.take(m)
		s.makeDead(m, at, pawl.KindRescue, backend.LonelyReason)
	}
	s.open(l)
}
