package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// row reads a row of readLanes.
func (c *claiming) row(r row) error {
	if c.heads == nil {
		c.heads = make([]head, 0, max(len(c.lanes), 16))
	}
	c.heads = append(c.heads, head{
		lane: r.int8(0), seq: r.int8(1), rank: r.int8(2), topic: r.id(4), replays: r.int2(6),
		attempts: r.int4(11), rescues: r.int4(12), seen: r.bool(18), called: r.bool(19), cut: r.null(10),
		first: r.int8(16), last: r.int8(17),
		late: r.bool(20), upto: r.int8(21),
	})
	h := &c.heads[len(c.heads)-1]
	visible, started, ends, hard := r.micros(3), r.micros(13), r.micros(14), r.micros(15)
	d := &h.d
	d.ID, d.Priority = sqlstore.DecodeID(r[7]), r.int2(5)
	d.Key, d.Body = c.keep(keyOf(r[8])), c.keep(r[10])
	d.Token = pawl.Token{Fence: c.fence, Lane: h.lane, Seq: h.seq}
	d.Attempt, d.Rescues, d.Replays, d.Throttles = h.attempts+1, h.rescues, h.replays, r.int4(22)
	if since := r.micros(23); since > 0 {
		d.ThrottledFor = time.Duration(started-since) * time.Microsecond
	}
	enqueued, err := decodeMeta(&d.Message, r[9], visible)
	if err != nil {
		return err
	}
	d.EnqueuedAt = moment(enqueued)
	d.Waited = time.Duration(max(0, started-visible)) * time.Microsecond
	d.LeaseFor = time.Duration(ends-started) * time.Microsecond
	d.Deadline = time.Duration(hard-started) * time.Microsecond
	return nil
}

// keep copies bytes that are the connection's, into a few large pieces.
func (c *claiming) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(c.arena)-len(c.arena) < len(b) {
		c.arena = make([]byte, 0, max(len(b), 32<<10))
	}
	n := len(c.arena)
	c.arena = append(c.arena, b...)
	return c.arena[n:len(c.arena):len(c.arena)]
}

// run has the messages that a claim got of one lane.
type run struct {
	lane  int64
	heads []head
	give  int // how many of them are given out
}

// repair has the corrections that a claim needs before it is given out.
type repair struct {
	open []int64 // lanes of keys to be given up
	solo []int64 // lanes of one message to be given up
	runs []ran   // of keys, where what is written down is not the run
}

// ran is a run as it is to be written down.
type ran struct {
	lane, first, last int64
	gapped            string // the same where numbers are missing: an array
}

// finish makes deliveries of the claimed messages. It gives up messages that are not given out,
// and all of them if it fails.
func (s *claimer) finish(ctx context.Context, c *claiming) (runs []run, err error) {
	if !c.there {
		return nil, nil
	}
	defer func() {
		if err != nil {
			s.upkeep.tracker.orphan(c.fence)
		}
	}()
	if err := s.refreshed(ctx, c); err != nil {
		return nil, err
	}
	s.note(c)
	if len(c.lanes) == 0 {
		return nil, nil
	}
	runs = c.runs()
	if c.topic.Park {
		if runs, err = s.settler.park(ctx, c, runs); err != nil {
			return nil, err
		}
	}
	c.share(runs)
	if err := s.repair(ctx, c.fence, c.repair(runs)); err != nil {
		return nil, err
	}
	bytes, given := 0, 0
	for _, r := range runs {
		for i := range r.heads[:r.give] {
			d := &r.heads[i].d
			d.Topic, d.Tail = c.topic.Name, c.topic.Tail && r.lane < 0
			bytes, given = bytes+d.Size(), given+1
		}
	}
	if err := s.freeUntilClaimed(ctx, runs); err != nil {
		return nil, err
	}
	s.floors.sized(c.topic.id, bytes, given)
	s.upkeep.tracker.claimed(c.fence, c.topic.Deadline, runs)
	return runs, nil
}

// freeUntilClaimed gives up the unique keys that were taken until now. The claim has committed,
// but the deliveries are not handed out yet: they stand for messages that were refused as
// duplicates meanwhile. If this fails the claim is given up.
func (s *claimer) freeUntilClaimed(ctx context.Context, runs []run) error {
	var keys, ids [][]byte
	for _, r := range runs {
		for i := range r.heads[:r.give] {
			if d := &r.heads[i].d; d.Unique.For == pawl.UntilClaimed {
				keys, ids = append(keys, uniqueKey(&d.Message)), append(ids, sqlstore.EncodeID(d.ID))
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.call(ctx, s.back, do(freeUniques, bytesArray(keys), bytesArray(ids)))
}

// stayedFor is how long a claim that left tickets waits before it reports that they may
// be claimed: the transactions that had locked their lanes have committed by then.
const stayedFor = 5 * time.Millisecond

// note keeps the figures that the next claims are based on.
func (s *claimer) note(c *claiming) {
	if c.aim != others {
		return
	}
	s.floors.note(c)
	if topic := c.topic.Name; c.stayed > 0 && c.short() {
		time.AfterFunc(stayedFor, func() { s.listener.news.wakeOwn(topic) })
	}
}

// refreshed reads the settings again if the claim met others.
func (s *claimer) refreshed(ctx context.Context, c *claiming) error {
	if len(c.heads) == 0 || c.topic != nil && c.topic.Version == c.version {
		return nil
	}
	if err := s.registry.loadTopics(ctx); err != nil {
		return err
	}
	if c.topic != nil {
		c.topic = s.topics.numbered(c.topic.id)
	}
	if c.topic == nil {
		return unexpected("a topic is gone")
	}
	return nil
}

// runs are the lanes that hold something, by rank.
func (c *claiming) runs() []run {
	runs := make([]run, 0, len(c.lanes))
	for i := range c.heads {
		if n := len(runs); n > 0 && runs[n-1].lane == c.heads[i].lane {
			last := &runs[n-1]
			last.heads = c.heads[i-len(last.heads) : i+1]
			continue
		}
		runs = append(runs, run{lane: c.heads[i].lane, heads: c.heads[i : i+1]})
	}
	for i := range runs {
		slices.SortFunc(runs[i].heads, func(a, b head) int { return cmp.Compare(a.seq, b.seq) })
		if runs[i].lane < 0 {
			runs[i].heads = beforeLate(runs[i].heads)
		}
	}
	slices.SortFunc(runs, byRank)
	return runs
}

// beforeLate ends a run before a message that was not there yet when a message behind it was
// given out: it had its number already, but committed later. The messages that were given out
// before keep the head of the lane, so the run has only those; the late ones are next.
func beforeLate(heads []head) []head {
	for i := range heads {
		if h := &heads[i]; !h.seen && (h.late || h.seq < h.upto) {
			return heads[:i]
		}
	}
	return heads
}

func byRank(a, b run) int {
	x, y := &a.heads[0], &b.heads[0]
	return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.seq, y.seq))
}

// share decides how much of each lane is given out. A suspect is a run by itself; every
// lane gets its first message before one gets a longer run.
func (c *claiming) share(runs []run) {
	left, bytes, given := c.want.Limit, 0, 0
	for i := range runs {
		r := &runs[i]
		r.give = 0
		if left == 0 {
			c.again = true // more tickets were good than was to be expected
			continue
		}
		if !c.takes(r.heads[0].rescues) {
			continue // another claim may
		}
		if c.aim != others && !r.heads[0].called {
			continue // it was the ticket of a message that is gone: what is left has another rank
		}
		if c.aim == others && c.tooEarly(r) {
			c.again = true
			continue
		}
		limit := min(len(r.heads), c.want.Run, left-min(left-1, len(runs)-1-i))
		for r.give < limit && !c.full {
			h := &r.heads[r.give]
			if r.give > 0 && max(h.rescues, r.heads[0].rescues) >= store.SuspectAfter {
				break
			}
			size := h.d.Size()
			if c.want.MaxBytes > 0 && c.before+given > 0 && (h.cut || bytes+size > c.want.MaxBytes) {
				c.full = true
				break
			}
			bytes += size
			given++
			r.give++
		}
		if left -= r.give; r.give > 0 {
			*c.room -= store.Weight(r.heads[0].rescues)
		}
	}
}

// tooEarly reports whether a lane was claimed by the ticket of a message that went with an
// earlier run, while other lanes may be better than the rest of this one: its next ticket has
// its present rank.
func (c *claiming) tooEarly(r *run) bool {
	if r.lane > 0 || c.short() {
		return false
	}
	last := top{rank: math.MinInt64}
	for _, t := range c.tops {
		if t.rank > last.rank || t.rank == last.rank && t.seq > last.seq {
			last = t
		}
	}
	return !slices.ContainsFunc(r.heads, func(h head) bool {
		return h.called || h.rank < last.rank || h.rank == last.rank && h.seq <= last.seq
	})
}

// repair compares the recorded runs with those that are given out.
func (c *claiming) repair(runs []run) (fix repair) {
	given := make(map[int64]bool, len(runs))
	for _, r := range runs {
		if r.give == 0 {
			continue
		}
		given[r.lane] = true
		if r.lane > 0 {
			continue
		}
		h := r.heads[:r.give]
		first, last, gaps := h[0].seq, h[len(h)-1].seq, gapped(h)
		if h[0].first != first || h[0].last != last || gaps != "" {
			fix.runs = append(fix.runs, ran{r.lane, first, last, gaps})
		}
	}
	if len(given) == len(c.lanes) {
		return fix
	}
	for _, lane := range c.lanes {
		switch {
		case given[lane]:
		case lane < 0:
			fix.open = append(fix.open, lane)
		default:
			fix.solo = append(fix.solo, lane)
		}
	}
	return fix
}

// gapped writes the numbers of a run as an array, if it is not all that there
// are between the first and the last: what has one in between may commit later,
// and is not of the run.
func gapped(heads []head) string {
	n := len(heads)
	if heads[n-1].seq-heads[0].seq == int64(n-1) {
		return ""
	}
	b := []byte{'{'}
	for i := range heads {
		b = append(strconv.AppendInt(b, heads[i].seq, 10), ',')
	}
	b[len(b)-1] = '}'
	return string(b)
}

// repair corrects the record of a claim.
func (s *claimer) repair(ctx context.Context, fence int64, fix repair) error {
	if err := s.setRuns(ctx, fence, fix.runs); err != nil || len(fix.open)+len(fix.solo) == 0 {
		return err
	}
	return s.leave(ctx, fence, fix.open, fix.solo)
}

// setRuns writes runs down, in the order of lanes, in which everybody locks them.
func (s *claimer) setRuns(ctx context.Context, fence int64, runs []ran) error {
	if len(runs) == 0 {
		return nil
	}
	slices.SortFunc(runs, func(a, b ran) int { return cmp.Compare(a.lane, b.lane) })
	gapped := make([]string, len(runs))
	for i, r := range runs {
		gapped[i] = r.gapped
	}
	return s.call(ctx, s.back, do(setRuns, column(runs, func(r *ran) int64 { return r.lane }),
		column(runs, func(r *ran) int64 { return r.first }), column(runs, func(r *ran) int64 { return r.last }),
		int8Value(fence), textArray(gapped)))
}

// leave gives up lanes of a claim. Those of keys are locked before, because the messages that
// wait in them may change until then.
func (s *claimer) leave(ctx context.Context, fence int64, open, solo []int64) error {
	var g group
	if len(open) > 0 {
		slices.Sort(open)
		fences := int8Array(slices.Repeat([]int64{fence}, len(open)))
		g = append(g, read(lockLanes, nil, int8Array(open), fences),
			do(leave, int8Value(fence), int8Array(slices.Concat(open, solo))),
			do(openLanes, int8Array(open), fences))
	} else {
		g = append(g, do(leave, int8Value(fence), int8Array(solo)))
	}
	if len(solo) > 0 {
		g = append(g, do(ticketSolo, int8Array(solo)))
	}
	return s.call(ctx, s.back, g...)
}
