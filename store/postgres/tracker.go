package postgres

import (
	"context"
	"sync"
	"time"
)

// tracker remembers the claims of this process that are not settled yet, to remove the row of a
// claim when all of it is. It may forget some: the sweep removes their rows when the leases
// end.
type tracker struct {
	mu      sync.Mutex
	held    map[int64]*holding // by fence
	done    []int64            // claims of which nothing is left
	orphans []orphan           // claims whose answer never came
	sought  time.Time          // when those were last looked for; zero if there is a new one
	pruned  time.Time
}

// holding is the unsettled rest of a claim.
type holding struct {
	solo   int             // messages that are lanes of their own
	runs   map[int64]int32 // by lane: messages of the run
	forget time.Time
}

// claimed remembers the deliveries of one claim; if there are none, its row may go.
func (t *tracker) claimed(fence int64, deadline time.Duration, runs []run) {
	now := time.Now()
	h := &holding{forget: now.Add(deadline + time.Minute)}
	for _, r := range runs {
		switch {
		case r.give == 0:
		case r.lane > 0:
			h.solo++
		default:
			if h.runs == nil {
				h.runs = map[int64]int32{}
			}
			h.runs[r.lane] = int32(r.give)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.solo == 0 && len(h.runs) == 0 {
		t.done = append(t.done, fence)
		return
	}
	if t.held == nil {
		t.held = map[int64]*holding{}
	}
	t.held[fence] = h
	if now.Sub(t.pruned) > 10*time.Second {
		t.pruned = now
		for fence, h := range t.held {
			if now.After(h.forget) {
				delete(t.held, fence)
			}
		}
	}
}

// ended notes how many messages that are lanes of their own were settled.
func (t *tracker) ended(fence int64, solo int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[fence]; h != nil {
		h.solo -= solo
		t.finish(fence, h)
	}
}

// acked notes that messages of a run were acked; ran tells that the run is over.
func (t *tracker) acked(fence, lane int64, messages int32, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[fence]
	if h == nil {
		return
	}
	if h.runs[lane] -= messages; over || h.runs[lane] <= 0 {
		delete(h.runs, lane)
	}
	t.finish(fence, h)
}

func (t *tracker) finish(fence int64, h *holding) {
	if h.solo <= 0 && len(h.runs) == 0 {
		delete(t.held, fence)
		t.done = append(t.done, fence)
	}
}

// takeDone returns claims to be removed, at most limit.
func (t *tracker) takeDone(limit int) []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(limit, len(t.done))
	done := t.done[:n:n]
	t.done = t.done[n:]
	return done
}

func (t *tracker) putBack(done []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = append(t.done, done...)
}

// flushClaims removes the rows of finished claims, for when no settle does.
func (s *upkeep) flushClaims() {
	if s.back == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, pingLimit)
	defer cancel()
	if done := s.tracker.takeDone(1000); len(done) > 0 {
		if err := s.call(ctx, s.back, do(dropClaims, int8Array(done))); err != nil {
			s.tracker.putBack(done)
		}
	}
}
