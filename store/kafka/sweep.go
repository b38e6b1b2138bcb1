package kafka

import (
	"container/heap"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// sweep opens closed lanes that are due, and ends leases that were not settled in time.
func (e *engine) sweep(now int64) {
	for len(e.shut.lanes) > 0 && e.shut.lanes[0].until <= now {
		l := heap.Pop(&e.shut).(*lane)
		if l.state != closed {
			continue
		}
		e.reopen(l, 0, now)
	}
	if now < e.sweepAt {
		return
	}
	e.sweepAt = never
	for l := e.runs.first; l != nil; {
		next := l.after
		if l.until <= now {
			e.rescue(l)
		} else {
			e.sweepAt = min(e.sweepAt, l.until)
		}
		l = next
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
