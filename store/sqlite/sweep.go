package sqlite

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	// Of more lanes the next sweep takes care.
	selectDue  = `SELECT lane, topic, home FROM pawl_closed WHERE at <= ? ORDER BY at, lane LIMIT 1000`
	firstDue   = `SELECT at FROM pawl_closed ORDER BY at LIMIT 1`
	selectOver = `SELECT lane FROM pawl_lease WHERE until <= ? ORDER BY until, lane LIMIT 1000`
	firstOver  = `SELECT coalesce(min(until), 0x7fffffffffffffff) FROM pawl_lease`
)

// due reports whether something may be due.
func (k *work) due() bool { return min(k.state.closedDue, k.state.leaseDue) <= k.now || k.setBack() }

// joining reports whether a delayed message may be due that has not joined its lane.
func (k *work) joining() bool { return k.state.closedDue <= k.now }

// sweepAll processes everything due that precedes a message appended now. The writer
// has done so in parts before, wherever it could.
func (k *work) sweepAll() error {
	err := k.sweep()
	for err == nil && k.joining() {
		err = k.openAll()
	}
	return err
}

// sweep lets what is due happen: delayed messages join their lanes, closed lanes
// open, ended leases are rescued. When nothing is due it costs a comparison. Of very
// much it does a part.
func (k *work) sweep() error {
	if k.state.leaseDue <= k.now {
		if err := k.rescueAll(); err != nil {
			return err
		}
	}
	if k.joining() {
		return k.openAll()
	}
	return nil
}

// openAll appends what SQL has sent, and opens what was closed until now, in the order in which it fell due.
func (k *work) openAll() error {
	more, err := k.takeIn()
	if err == nil {
		err = k.openDue()
	}
	if more {
		k.state.closedDue = 0
	}
	return err
}

func (k *work) openDue() error {
	type lane struct{ lane, topic, home int64 }
	lanes, err := collect(k.db, func(r row) (lane, error) { return lane{r.int(0), r.int(1), r.int(2)}, nil }, selectDue,
		k.now)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if _, err := k.db.exec(reopen, l.lane); err != nil {
			return err
		}
		if l.home != 0 {
			err = k.join(l.lane, l.home, l.topic)
		} else {
			err = k.open(l.lane, l.topic)
		}
		if err != nil {
			return err
		}
	}
	cols, ok, err := first(k.db, firstDue)
	k.state.closedDue = cols[0]
	if !ok {
		k.state.closedDue = never
	}
	return err
}

// rescueAll ends the leases whose time is over. Leases have no index by time:
// most are settled long before, and would pay for it. So the bound of the next
// end is that of the lease table when it was last read, and reading it once per
// length of a lease is enough.
func (k *work) rescueAll() error {
	lanes, err := numbers(k.db, selectOver, k.now)
	if err != nil {
		return err
	}
	ended := map[owner]int64{}
	for _, lane := range lanes {
		if err := k.rescue(lane, ended); err != nil {
			return err
		}
	}
	if err := (deaths{k}).died(ended); err != nil {
		return err
	}
	cols, _, err := first(k.db, firstOver)
	k.state.leaseDue = cols[0]
	return err
}

const (
	firstOfLane = `SELECT seq FROM pawl_msg WHERE lane = ? AND lane < 0 ORDER BY seq LIMIT 1`
	addRescue   = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason, rescued) VALUES (?1, 0, 1, 0, ?2, ?4)
		ON CONFLICT (seq) DO UPDATE SET rescues = rescues + 1, lonely = lonely + ?3, reason = excluded.reason,
			rescued = excluded.rescued`
	selectTried = `SELECT attempts, rescues, lonely FROM pawl_tried WHERE seq = ?`
)

// rescue ends a lease that was not settled, and records deaths beside other work. Only the
// first message of the run can be the cause.
func (k *work) rescue(lane int64, deaths map[owner]int64) error {
	l, err := k.lease(lane)
	if err != nil {
		return err
	}
	seq := lane
	if lane < 0 {
		cols, _, err := first(k.db, firstOfLane, lane)
		if err != nil {
			return err
		}
		seq = cols[0]
	}
	tried, _, err := first(k.db, selectTried, seq)
	if err != nil {
		return err
	}
	a := sqlstore.RescuedAttempt(int(tried[0]), l.owner, moment(l.started), moment(l.until), moment(l.hard))
	lonely := l.alone && store.Solitary(int(tried[1]))
	if who := (owner{l.topic, l.owner}); !lonely {
		deaths[who] = max(deaths[who], l.until)
	}
	if _, err := k.db.exec(addRescue, seq, a.Error, lonely, l.until); err != nil {
		return err
	}
	if err := k.record(seq, a); err != nil {
		return err
	}
	k.of(l.topic).rescues++
	dead := lonely && tried[2]+1 >= store.LonelyRescues
	if dead {
		if err := k.makeDead(seq, l.until, pawl.KindRescue, backend.LonelyReason); err != nil {
			return err
		}
	}
	return k.end(lane, l.topic, 0, dead)
}

const insertAttempt = `INSERT INTO pawl_attempt (seq, n, record)
	SELECT ?1, coalesce((SELECT max(n) FROM pawl_attempt WHERE seq = ?1), 0) + 1, ?2`

// record adds to the history of a message.
func (k *work) record(seq int64, a store.Attempt) error {
	_, err := k.db.exec(insertAttempt, seq, sqlstore.EncodeAttempt(a))
	return err
}
