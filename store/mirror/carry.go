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
)

// Carry takes up to limit messages of a topic from the mirrored store back to the
// primary, in the order of their lanes, under their ids, and returns how many; 0 means
// that nothing can be claimed there now. A message that the primary refuses is released,
// and the error says why. Each is appended to the primary before it is acked in the
// mirrored store.
func (s *Store) Carry(ctx context.Context, topic string, limit int, owner string) (int, error) {
	r, err := s.stages.look(ctx, topic)
	if err != nil {
		return 0, err
	}
	n, err := Carry(ctx, s.mirrored, s.primary, r.plan.InMirrored(), topic, limit, owner)
	if n > 0 {
		s.copies.note(topic, func(t *TopicStats) { t.Carried += int64(n) })
	}
	return n, err
}

// Carry takes up to limit messages of a topic from one store to another, as
// [Store.Carry] does.
func Carry(ctx context.Context, from, to store.Store, topic, as string, limit int, owner string) (int, error) {
	want := store.Want{Topic: topic, Limit: min(limit, carryAtOnce), MaxBytes: carryBytes}
	ds, err := from.Claim(ctx, []store.Want{want}, store.Lease{For: carryLease, Owner: owner})
	if err != nil || len(ds) == 0 {
		return 0, err
	}
	items := make([]pawl.Message, len(ds))
	for i := range ds {
		items[i] = ds[i].Message
		items[i].Topic, items[i].Delay = as, 0 // it is due
	}
	receipts, err := to.Append(ctx, store.NewBatch(items...))
	settled := make([]store.Settlement, len(ds))
	var bad error
	done := 0
	for i := range ds {
		settled[i] = store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
		why := err
		switch {
		case why != nil:
		case receipts[i].Err != nil:
			why = receipts[i].Err
		case receipts[i].DuplicateOf != "" && receipts[i].DuplicateOf != ds[i].ID:
			why = fmt.Errorf("%s has its unique key there", receipts[i].DuplicateOf)
		}
		if why != nil {
			settled[i].Verdict, settled[i].After = store.Release, time.Second
			settled[i].Failure = store.Failure{Error: "not carried: " + why.Error()}
			bad = errors.Join(bad, fmt.Errorf("message %s is not carried: %w", ds[i].ID, why))
			if err != nil {
				bad = err
			}
		} else {
			done++
		}
	}
	// Also when the caller has had enough: what was appended is acked if that is possible.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryLease)
	defer cancel()
	refused, settleErr := from.Settle(keep, store.NewBatch(settled...))
	for _, r := range refused {
		if settled[r.Index].Verdict == store.Ack {
			bad = errors.Join(bad, fmt.Errorf("message %s is in both stores: %w", settled[r.Index].ID, r.Err))
		}
	}
	if settleErr != nil {
		return 0, errors.Join(settleErr, bad)
	}
	return done, bad
}
