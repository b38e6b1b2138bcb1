package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	hasSlot     = `SELECT 1 FROM pawl_slot WHERE topic = ? LIMIT 1`
	messageCols = ` m.seq, m.lane, m.rank, m.enqueued, m.hidden, ` + contentCols + `,
		t.attempts, t.rescues, m.replays, t.throttles, t.throttled `
	headsOf = `SELECT` + messageCols + `FROM pawl_slot s CROSS JOIN pawl_msg m ON m.seq = s.seq
		LEFT JOIN pawl_tried t ON t.seq = s.seq
		WHERE s.topic = ? AND s.suspect = ?`
	selectHeads = headsOf + ` ORDER BY s.rank, s.seq LIMIT ?`
	selectRest  = `SELECT` + messageCols + `FROM pawl_msg m LEFT JOIN pawl_tried t ON t.seq = m.seq
		WHERE m.lane = ? AND m.lane < 0 AND m.seq > ? ORDER BY m.seq LIMIT ?`
	// What was taken has no other tickets in between.
	leaseHeads = `INSERT INTO pawl_lease (lane, fence, until, hard, started, topic, last, extras, alone, owner)
		SELECT CASE lane WHEN 0 THEN seq ELSE lane END, ?5, ?6, ?7, ?8, topic, seq,
			CASE WHEN EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = pawl_slot.seq) THEN 2 ELSE 0 END, ?9, ?10
		FROM pawl_slot WHERE topic = ?1 AND suspect = ?2 AND (rank, seq) <= (?3, ?4) AND (rank, seq) >= (?11, ?12)`
	takeSlots = `DELETE FROM pawl_slot WHERE topic = ?1 AND suspect = ?2 AND (rank, seq) <= (?3, ?4) AND (rank, seq) >= (?5, ?6)`
	setLease  = `UPDATE pawl_lease SET last = ?, extras = ? WHERE lane = ?`
)

// Claim implements [store.Store].
func (s *core) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	if err := backend.AdmitClaim(wants, terms); err != nil {
		return nil, err
	}
	weight := 0
	for i := range wants {
		weight += wants[i].Limit
	}
	wants = slices.Clone(wants) // the writer may still look at them when the caller has given up
	var out []pawl.Delivery
	err := s.write(ctx, &call{
		op: "claim", phase: toClaim, weight: weight,
		do: func(k *work) error {
			c := claimer{work: k, terms: terms, suspects: terms.Suspects}
			err := c.claim(wants)
			out = c.out
			return err
		},
		idle: func(k *work) (bool, error) { return k.idle(wants) },
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// idle reports whether a claim would find nothing.
func (k *work) idle(wants []store.Want) (bool, error) {
	if k.due() {
		return false, nil
	}
	for _, w := range wants {
		t := k.topics.byName[w.Topic]
		if t == nil || t.paused(k.now) || w.Limit == 0 {
			continue
		}
		if _, found, err := first(k.db, hasSlot, t.number); err != nil || found {
			return false, err
		}
	}
	return true, nil
}

// claimer is one call of Claim.
type claimer struct {
	*work
	terms store.Lease
	// suspects is what suspects may weigh that are taken yet.
	suspects int
	out      []pawl.Delivery
}

func (c *claimer) claim(wants []store.Want) error {
	if err := c.sweep(); err != nil {
		return err
	}
	var open []want
	for _, w := range wants {
		t := c.topics.byName[w.Topic]
		if t == nil || t.paused(c.now) || w.Limit == 0 {
			continue
		}
		if t.Park {
			if parked, err := (letterWork{c.work}).park(t, w.Limit); err != nil {
				return err
			} else if !parked {
				continue // the next claim goes on
			}
		}
		open = append(open, want{Want: w, topic: t, run: cmp.Or(w.Run, store.DefaultRun)})
	}
	for _, w := range open {
		if !c.terms.Alone {
			break
		}
		if found, err := c.solitary(w); err != nil || found {
			return err
		}
	}
	for _, w := range open {
		if err := c.take(w); err != nil {
			return err
		}
	}
	return nil
}

// want is what is asked of a topic that can be claimed.
type want struct {
	store.Want
	topic *topic
	run   int
	// alone wants a message that is carried out alone, last rescued at rescued or before.
	alone   bool
	rescued int64
}

// taken is a lane under lease, and its run.
type taken struct {
	lane   int64 // as in pawl_lease
	run    []pawl.Delivery
	extras int64
	last   int64
	single bool // a run by itself
}

// tickets are those of a topic from one to another.
type tickets struct{ from, to struct{ rank, seq int64 } }

// take leases the first lanes of a topic, each with its first message, and shares what
// is left of the limit among the lanes that have more: as many lanes as possible,
// because one lane keeps one worker busy.
func (c *claimer) take(w want) error {
	l := loader{claimer: c, want: w, fence: sqlstore.NewFence()}
	var lanes []*taken
	took := map[int64]*tickets{} // by what is suspected of them
	err := c.heads(w, func(r row, suspect int64) error {
		t := &taken{lane: cmp.Or(r.int(1), r.int(0)), single: suspect != ordinary}
		if err := l.load(r, t); err != nil {
			return err
		}
		lanes = append(lanes, t)
		x := took[suspect]
		if x == nil {
			x = &tickets{}
			x.from.rank, x.from.seq = r.int(2), r.int(0)
			took[suspect] = x
		}
		x.to.rank, x.to.seq = r.int(2), r.int(0)
		return nil
	})
	if err != nil || len(lanes) == 0 {
		return err
	}
	hard := c.now + micros(w.topic.Deadline)
	until := min(c.now+micros(c.terms.For), hard)
	c.state.leaseDue = min(c.state.leaseDue, until)
	for suspect, x := range took {
		_, err = c.db.exec(leaseHeads, w.topic.number, suspect, x.to.rank, x.to.seq, l.fence, until, hard, c.now,
			w.alone, c.terms.Owner, x.from.rank, x.from.seq)
		if err != nil {
			return err
		}
		_, err := c.db.exec(takeSlots, w.topic.number, suspect, x.to.rank, x.to.seq, x.from.rank, x.from.seq)
		if err != nil {
			return err
		}
	}
	if err := l.share(lanes); err != nil {
		return err
	}
	for _, t := range lanes {
		if t.extras&hasUnique != 0 || len(t.run) > 1 {
			if _, err := c.db.exec(setLease, t.last, t.extras, t.lane); err != nil {
				return err
			}
		}
		if err := c.freeUntilClaimed(t.run); err != nil {
			return err
		}
		c.out = append(c.out, t.run...)
	}
	return nil
}

// freeUntilClaimed gives up the keys that were taken until now.
func (c *claimer) freeUntilClaimed(run []pawl.Delivery) error {
	for i := range run {
		d := &run[i]
		if d.Unique.For != pawl.UntilClaimed {
			continue
		}
		if err := (uniques{c.work}).freeUnique(d.Topic, d.Unique, sqlstore.EncodeID(d.ID)); err != nil {
			return err
		}
	}
	return nil
}

// loader makes deliveries of rows, within the limits of a want.
type loader struct {
	*claimer
	want
	fence int64
	count int
	bytes int
	full  bool // the next message is too large for what is left
}

// load adds a message to a lane. It returns errEnough when it has no room.
func (l *loader) load(r row, t *taken) error {
	m, err := content(l.topic.Name, r, 5)
	if err != nil {
		return err
	}
	size := m.Size()
	if l.MaxBytes > 0 && l.count > 0 && l.bytes+size > l.MaxBytes {
		l.full = true
		return errEnough
	}
	l.count++
	l.bytes += size
	t.last = r.int(0)
	if r[12] != nil {
		t.extras |= hasTraces
	}
	if m.Unique.Key != "" && m.Unique.For == 0 {
		t.extras |= hasUnique
	}
	t.run = append(t.run, pawl.Delivery{
		Message:    m,
		Token:      pawl.Token{Fence: l.fence, Lane: t.lane, Seq: t.last},
		Attempt:    int(r.int(12)) + 1,
		Rescues:    int(r.int(13)),
		Replays:    int(r.int(14)),
		Throttles:  int(r.int(15)),
		EnqueuedAt: moment(r.int(3)),
		Waited:     time.Duration(max(0, l.now-r.int(3)-r.int(4))) * time.Microsecond,
		LeaseFor:   min(l.terms.For, l.topic.Deadline),
		Deadline:   l.topic.Deadline,
		Tail:       l.topic.Tail && t.lane < 0,
	})
	if since := r.int(16); since > 0 {
		t.run[len(t.run)-1].ThrottledFor = time.Duration(l.now-since) * time.Microsecond
	}
	return nil
}

// share lengthens the runs of keyed lanes, evenly, the best lanes first.
func (l *loader) share(lanes []*taken) error {
	var open []*taken
	for _, t := range lanes {
		if t.lane < 0 && l.run > 1 && !t.single {
			open = append(open, t)
		}
	}
	for len(open) > 0 && l.count < l.Limit && !l.full {
		even := (l.Limit - l.count + len(open) - 1) / len(open)
		var more []*taken
		for _, t := range open {
			ask := min(even, l.run-len(t.run), l.Limit-l.count)
			if ask == 0 || l.full {
				break
			}
			before := len(t.run)
			err := l.db.query(selectRest, func(r row) error {
				if r.int(13) >= store.SuspectAfter {
					return errEnough // a suspect is a run by itself
				}
				return l.load(r, t)
			}, t.lane, t.last, int64(ask))
			if err != nil {
				return err
			}
			if len(t.run)-before == ask && len(t.run) < l.run {
				more = append(more, t)
			}
		}
		open = more
	}
	return nil
}
