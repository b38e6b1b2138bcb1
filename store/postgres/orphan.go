package postgres

import (
	"context"
	"slices"
	"time"
)

// orphan is a claim whose answer was lost, so that its deliveries are unknown.
type orphan struct {
	fence int64
	since time.Time
}

// orphan notes that the answer of a claim was lost.
func (t *tracker) orphan(fence int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orphans, t.sought = append(t.orphans, orphan{fence, time.Now()}), time.Time{}
}

// takeOrphans returns the claims to look for: new ones at once, those that were not found again
// after a pause.
func (t *tracker) takeOrphans() []orphan {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.orphans) == 0 || now.Sub(t.sought) < sweepEvery {
		return nil
	}
	orphans := t.orphans
	t.orphans, t.sought = nil, now
	return orphans
}

func (t *tracker) keepOrphans(orphans []orphan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orphans = append(t.orphans, orphans...)
}

// lockClaim returns the lanes of a claim that were not given back.
const lockClaim = `SELECT ARRAY(SELECT unnest(lanes) EXCEPT SELECT unnest(coalesce(gone, '{}'))) FROM @claim WHERE fence = $1::bigint FOR UPDATE`

// whichClaims are those of claims that are there.
const whichClaims = `SELECT c.fence FROM unnest($1::bigint[]) x(fence)
	CROSS JOIN LATERAL (SELECT c.fence FROM @claim c WHERE c.fence = x.fence OFFSET 0) c`

// giveUpOrphans gives back the messages of claims whose answer was lost. A claim that is not
// there may still be under way at the server, for as long as a call may take.
func (s *upkeep) giveUpOrphans(ctx context.Context) error {
	orphans := s.tracker.takeOrphans()
	if len(orphans) == 0 {
		return nil
	}
	there := map[int64]bool{}
	fences := column(orphans, func(o *orphan) int64 { return o.fence })
	if err := s.call(ctx, s.back, read(whichClaims, note(there, row.int8), fences)); err != nil {
		s.tracker.keepOrphans(orphans)
		return err
	}
	for i, o := range orphans {
		if !there[o.fence] {
			if time.Since(o.since) < s.cfg.CallTimeout {
				s.tracker.keepOrphans(orphans[i : i+1])
			}
			continue
		}
		if err := s.giveUp(ctx, o.fence); err != nil {
			s.tracker.keepOrphans(orphans[i:])
			return err
		}
	}
	return nil
}

// giveUp gives back everything of a claim whose answer was lost: no worker holds its
// tokens, so no rescue is counted.
func (s *upkeep) giveUp(ctx context.Context, fence int64) error {
	return s.within(ctx, s.back, nil, func(t *tx) error {
		var lanes []int64
		if err := t.run(ctx, read(lockClaim, set(&lanes, row.int8s), int8Value(fence))); err != nil || len(lanes) == 0 {
			return err
		}
		slices.Sort(lanes)
		keyed, _ := slices.BinarySearch(lanes, 0)
		open, solo := lanes[:keyed], lanes[keyed:]
		fences := int8Array(slices.Repeat([]int64{fence}, len(open)))
		return t.run(ctx, read(lockLanes, nil, int8Array(open), fences), do(openLanes, int8Array(open), fences),
			do(ticketSolo, int8Array(solo)), do(dropClaims, int8Array([]int64{fence})))
	})
}

// finishUp gives back what can be given back when the store is closed, and sends
// pending notifications.
func (s *upkeep) finishUp() {
	if s.back == nil {
		return
	}
	if !s.cfg.PollOnly {
		_ = s.listener.notifyPending() // a hint: others find it by polling, too
	}
	s.flushClaims()
	ctx, cancel := context.WithTimeout(s.ctx, pingLimit)
	defer cancel()
	_ = s.giveUpOrphans(ctx)
}
