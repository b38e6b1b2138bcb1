package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/pawl-dev/pawl/store"
)

// headOfAListing: one asks for the first message, again and again, while others
// carry out the first ones. It always gets one: enough of them stay.
func headOfAListing(t *T) {
	const n, stay, callers = 1200, 200, 4
	for i := range n / 100 {
		t.put(each(numbered(fmt.Sprint(i, "-"), 100), t.msg)...)
	}
	var left, busy atomic.Int64
	left.Store(n - stay)
	busy.Store(callers - 1)
	t.together(callers, func(i int, s store.Store) error {
		if i > 0 {
			defer busy.Add(-1)
			return ackFirst(t, s, &left)
		}
		looker, _ := store.As[store.Inspector](t.Store)
		for busy.Load() > 0 {
			found := 0
			for _, err := range looker.List(t.ctx(), store.Filter{Topic: t.Topic, State: store.Waiting, Limit: 1}) {
				if err != nil {
					return err
				}
				found++
			}
			if found != 1 {
				return fmt.Errorf("listed %d messages of at least %d; the limit is 1", found, stay)
			}
		}
		return nil
	})
}

// ackFirst carries out what comes first, few at a time, until so many are done.
func ackFirst(t *T, s store.Store, left *atomic.Int64) error {
	const few = 5
	for left.Add(-few) >= 0 {
		ds, err := s.Claim(t.ctx(), []store.Want{{Topic: t.Topic, Limit: few}},
			store.Lease{For: lease, Suspects: store.MaxSuspects, Alone: true})
		if err != nil {
			return err
		}
		if _, err := s.Settle(t.ctx(), store.NewBatch(verdicts(store.Ack, ds)...)); err != nil {
			return err
		}
	}
	return nil
}
