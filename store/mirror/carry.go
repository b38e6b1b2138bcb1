package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const (
	carryAtOnce = 500         // messages of a call
	carryBytes  = 8 << 20     // their size
	carryLease  = time.Minute // for a call to the primary
	carryRounds = 10          // claims of a call, where runs end early
)

// KindNotCarried is the kind of a dead letter that the primary does not take back.
const KindNotCarried pawl.Kind = "NotCarried"

// Carry takes up to limit messages of a topic from the mirrored store back to the
// primary, in the order of their lanes, under their ids, and returns how many; 0 means
// that nothing can be claimed there now, or carried. Each is appended to the primary
// before it is acked in the mirrored store. What the primary refuses for what it is, or
// because another message has its unique key, becomes a dead letter of kind
// [KindNotCarried] in the mirrored store, and its lane goes on as behind any dead letter.
// What is refused for another reason is released, and the error says why.
func (s *Store) Carry(ctx context.Context, topic string, limit int, owner string) (int, error) {
	return s.carryFrom(ctx, s.mirrored, topic, limit, owner)
}

func (s *Store) carryFrom(ctx context.Context, from store.Store, topic string, limit int, owner string) (int, error) {
	r, err := s.stages.look(ctx, topic)
	if err != nil {
		return 0, err
	}
	n, err := Carry(ctx, from, s.primary, r.plan.InMirrored(), topic, limit, owner)
	if n > 0 {
		s.copies.note(topic, func(t *TopicStats) { t.Carried += int64(n) })
	}
	return n, err
}

// Carry takes up to limit messages of a topic from one store to another, as
// [Store.Carry] does.
func Carry(ctx context.Context, from, to store.Store, topic, as string, limit int, owner string) (int, error) {
	want := store.Want{Topic: topic, Limit: min(limit, carryAtOnce), MaxBytes: carryBytes}
	c := transfer{from: from, to: to, as: as, there: map[string]bool{}}
	for range carryRounds {
		ds, err := from.Claim(ctx, []store.Want{want}, store.Lease{For: carryLease, Owner: owner,
			Suspects: store.AllSuspects})
		if err != nil || len(ds) == 0 {
			return c.done, errors.Join(c.bad, err)
		}
		if err := c.carry(ctx, ds); err != nil || len(c.there) == 0 || c.bad != nil {
			return c.done, errors.Join(err, c.bad)
		}
	}
	return c.done, nil
}

// transfer carries messages from one store to another.
type transfer struct {
	from, to store.Store
	as       string
	done     int
	bad      error
	// there are messages that were appended, and could not be acked because one before
	// them in their run was refused: they are acked with the next claim.
	there map[string]bool
}

// piece is what becomes of a delivery.
type piece struct {
	d    *pawl.Delivery
	send bool  // it is to be appended
	dead error // it is refused for good
	why  error // it is refused for now
	rest bool  // it waits for the next claim
}

// carry carries what was claimed.
func (c *transfer) carry(ctx context.Context, ds []pawl.Delivery) error {
	pieces := c.plan(ds)
	var items []pawl.Message
	var at []int
	for i := range pieces {
		if pieces[i].send {
			m := pieces[i].d.Message
			m.Topic, m.Delay = c.as, 0 // it is due
			items, at = append(items, m), append(at, i)
		}
	}
	if len(items) > 0 {
		receipts, err := c.to.Append(store.Accepted(ctx), store.NewBatch(items...))
		whole := len(receipts) != len(items) // it says nothing of single messages
		if whole && err == nil {
			err = fmt.Errorf("%d receipts for %d messages", len(receipts), len(items))
		}
		c.bad = err
		for j, i := range at {
			if whole {
				pieces[i].why = err
			} else {
				pieces[i].answer(&receipts[j])
			}
		}
	}
	return c.settle(ctx, pieces)
}

// plan decides what is appended. Of each run that is everything up to and including the
// first message that may be refused: what follows a refusal must not get ahead of it.
func (c *transfer) plan(ds []pawl.Delivery) []piece {
	over := map[run]bool{}
	pieces := make([]piece, len(ds))
	for i := range ds {
		p, r := &pieces[i], runOf(&ds[i])
		p.d = &ds[i]
		if over[r] {
			p.rest = true
			continue
		}
		if c.there[p.d.ID] {
			continue
		}
		m := p.d.Message
		m.Topic, m.Delay = c.as, 0
		if err := store.Fit(c.to, &m); err != nil && store.ForGood(err) {
			p.dead = err
		}
		p.send = p.dead == nil
		over[r] = p.dead != nil || m.Unique.Key != ""
	}
	return pieces
}

// run is the messages of a lane that were claimed together.
type run struct{ fence, lane int64 }

func runOf(d *pawl.Delivery) run { return run{d.Token.Fence, d.Token.Lane} }

// answer notes what the other store said of a message.
func (p *piece) answer(r *store.Receipt) {
	switch {
	case r.Err != nil && store.ForGood(r.Err):
		p.dead = r.Err
	case r.Err != nil:
		p.why = r.Err
	case r.DuplicateOf != "" && r.DuplicateOf != p.d.ID:
		p.dead = fmt.Errorf("%s has its unique key there", r.DuplicateOf)
	}
}

// settle ends the leases. A run goes on until something of it is not acked: what was
// appended behind that comes again with the next claim.
func (c *transfer) settle(ctx context.Context, pieces []piece) error {
	var settled []store.Settlement
	over := map[run]bool{}
	for i := range pieces {
		p := &pieces[i]
		stored := !p.rest && p.dead == nil && p.why == nil
		if p.why != nil && c.bad == nil {
			c.bad = fmt.Errorf("message %s is not carried: %w", p.d.ID, p.why)
		}
		r := runOf(p.d)
		if over[r] {
			if stored {
				c.there[p.d.ID] = true
			}
			continue
		}
		s := store.Settlement{Token: p.d.Token, ID: p.d.ID, Verdict: store.Ack}
		switch {
		case p.dead != nil:
			s.Verdict = store.Dead
			s.Failure = store.Failure{Kind: KindNotCarried, Error: "not carried: the other store refuses it: " +
				p.dead.Error()}
		case p.why != nil:
			s.Verdict, s.After = store.Release, time.Second
			s.Failure = store.Failure{Error: "not carried: " + p.why.Error()}
		case p.rest:
			s.Verdict = store.Release
			s.Failure = store.Failure{Error: "to be carried: one before it in its lane was not yet certain to be taken"}
		}
		over[r] = s.Verdict != store.Ack
		settled = append(settled, s)
	}
	// Also when the caller has had enough: what was appended is acked if that is possible.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryLease)
	defer cancel()
	refused, err := c.from.Settle(keep, store.NewBatch(settled...))
	if err != nil {
		return err
	}
	for _, r := range refused {
		if s := &settled[r.Index]; s.Verdict == store.Ack {
			s.Verdict = store.Release
			c.bad = errors.Join(c.bad, fmt.Errorf("message %s is in both stores: %w", s.ID, r.Err))
		}
	}
	for i := range settled {
		if settled[i].Verdict == store.Ack {
			delete(c.there, settled[i].ID)
			c.done++
		}
	}
	return nil
}
