package operate

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Skip makes dead letters of messages, so that their keys go on. One that is leased is settled for its worker, whose
// verdict is lost then. It returns those that it was refused for.
func Skip(ctx context.Context, s store.Store, i store.Inspector, who, reason string, ids ...string) (
	refused map[string]error, err error) {
	reason = "skipped by " + who + Because(reason)
	refused = map[string]error{}
	for _, id := range ids {
		found, err := i.Get(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return refused, err
		}
		if err != nil || found.Lease == nil {
			no, err := i.Skip(ctx, reason, id)
			if err != nil {
				return refused, err
			}
			if no[id] != nil {
				refused[id] = no[id]
			}
			continue
		}
		lost, err := s.Settle(ctx, store.NewBatch(store.Settlement{Token: found.Lease.Token, ID: id, Verdict: store.Dead,
			Failure: store.Failure{Kind: pawl.KindSkipped, Error: reason, Worker: found.Lease.Owner}}))
		if err != nil {
			return refused, err
		}
		if len(lost) > 0 {
			refused[id] = &store.Error{Op: "skip " + id, Code: store.ErrConflict, Hint: "its worker has just settled it"}
		}
	}
	return refused, nil
}
