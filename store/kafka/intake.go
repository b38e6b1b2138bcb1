package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// pieceOfTake is how many records are taken in at once.
const pieceOfTake = 512

// take takes in records of a partition that were fetched, in order, and returns
// how many: fewer than all when there is no room for more. It goes on in pieces, so
// that a claim does not wait long, and what there is no room for costs little. There
// is one take of a partition at a time.
func (e *engine) take(a *assignment, records []*kgo.Record) int {
	taken := 0
	for taken < len(records) { // again where some of them needed no room
		fit, keyed, ok := e.beginTake(a, len(records)-taken)
		if !ok {
			return len(records) // fetched again by whoever has the partition now
		}
		if fit == 0 {
			return taken
		}
		for end := taken + fit; taken < end; {
			p := a.prepare(records[taken:min(taken+pieceOfTake, end)], keyed)
			n := e.admit(a, &p, taken+len(p.records) == end)
			if taken += n; n < len(p.records) {
				return taken
			}
		}
	}
	return taken
}

// beginTake returns how many of n more messages are worth a look, whether their topic
// keeps the order of keys, and whether the partition is ours at all.
func (e *engine) beginTake(a *assignment, n int) (fit int, keyed, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.state != live:
		return 0, false, false
	case n == 0 || !a.hasRoom(e, 0):
		return 0, false, true
	}
	fit = min(n, max(1, e.limits.Count-a.inHand))
	if fit < n {
		a.crowded = true // for those that are left
	}
	a.taking = true
	return fit, a.topic.Order == store.OrderKey, true
}

// piece is what is taken in at once. All of it is made without the engine's lock, for
// which claims and settlements wait.
type piece struct {
	records []*kgo.Record
	flights []flight
	lanes   []*lane
}

func (a *assignment) prepare(records []*kgo.Record, keyed bool) piece {
	p := piece{records, make([]flight, len(records)), make([]*lane, len(records))}
	var lanes []lane
	for i, r := range records {
		f := &p.flights[i]
		f.rec, f.size = r, sizeOf(r)
		f.remember(r)
		if !r.Attrs.IsControl() {
			p.lanes[i] = a.laneOf(r, keyed, &lanes, len(records)-i)
		}
	}
	return p
}

// laneOf returns the lane of a record. Lanes of messages without a key are made many at
// a time. Between beginTake and the end of admit nothing else touches a.lanes.
func (a *assignment) laneOf(r *kgo.Record, keyed bool, slab *[]lane, more int) *lane {
	keyed = keyed && r.Key != nil
	if keyed {
		if l := a.lanes[string(r.Key)]; l != nil {
			return l
		}
	}
	if len(*slab) == 0 {
		*slab = make([]lane, min(more, 64))
	}
	l := &(*slab)[0]
	*slab = (*slab)[1:]
	a.laneID++
	l.of, l.id, l.fresh = a, a.laneID, true
	if keyed {
		l.keyed, l.key = true, string(r.Key)
		a.lanes[l.key] = l
	}
	return l
}

// admit puts a piece into its lanes, as far as there is room, and returns how far. The
// take is over with the last piece, and when there was no room for all of one.
func (e *engine) admit(a *assignment, p *piece, last bool) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.state != live {
		return len(p.records)
	}
	woken := false
	for n < len(p.records) && a.enter(e, p.records[n], &p.flights[n]) {
		switch f, l := &p.flights[n], p.lanes[n]; {
		case l == nil:
		case f.state == finished:
			a.forget(l) // unless another lane uses it, too
		default:
			if l.fresh {
				e.holdForLeftover(l, f)
			}
			l.append(f)
			if l.state == empty {
				e.open(l)
				woken = true
			}
		}
		n++
	}
	if last || n < len(p.records) {
		a.endTake()
	}
	if woken {
		e.wake(a.topic.Name)
	}
	return n
}

// endTake lets go of the lanes that became empty meanwhile.
func (a *assignment) endTake() {
	a.taking = false
	for _, l := range a.idle {
		a.forget(l)
	}
	a.idle = nil
}

// enter counts a record in; false if there is no room for it.
func (a *assignment) enter(e *engine, r *kgo.Record, f *flight) bool {
	if r.Attrs.IsControl() {
		return a.pass(r.Offset)
	}
	if !a.hasRoom(e, f.size) || !a.register(r.Offset, f) {
		return false
	}
	if f.state != finished {
		e.seq++
		f.seq = e.seq
		a.topic.taken++
		a.inHand++
		a.bytes += f.size
		e.bytes += f.size
	}
	return true
}

// holdForLeftover blocks a new lane while a handler of the same key runs that got its message in
// an earlier assignment.
func (e *engine) holdForLeftover(l *lane, f *flight) {
	l.fresh = false
	if len(e.leftovers) == 0 {
		return
	}
	if g := e.leftovers[leftoverName(l, f.offset)]; g != nil {
		g.waiting, l.state = l, stuck
	}
}

// see takes note of what a fetch that brought records says of its partition: up to where
// there are messages, and from where on. The caller holds feedMu.
func (g *group) see(a *assignment, p *kgo.FetchPartition) {
	next, known := g.next(a), a.known
	a.known = true
	a.high.Store(p.HighWatermark)
	// What is before the start of the log but comes all the same is not lost; and a gap
	// behind the start is none: compaction and aborted transactions leave some.
	start := min(p.LogStartOffset, p.Records[0].Offset)
	if !known || start <= next {
		return
	}
	lost := g.s.engine.countLost(a, next, start)
	if lost == 0 {
		return
	}
	g.s.health.note(partitionName(a.topic.Name, a.partition),
		"retention removed %d messages that were not finished: keep the topic for longer, or work faster", lost)
	g.s.cfg.Logger.Error("retention removed messages that were not finished",
		"topic", a.topic.Name, "partition", a.partition, "messages", lost, "read_up_to", next, "goes_on_at", start)
}

// countLost counts messages between two offsets of a partition that retention removed before
// they were carried out. The figure outlives the assignment.
func (e *engine) countLost(a *assignment, from, to int64) (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = a.gate.LeftOut(from, to)
	if n > 0 {
		a.topic.lost[a.partition] += n
	}
	return n
}

// lag is how many messages of a partition are not finished, in hand or not, as far as
// the last fetch knew. The caller holds the engine's mu.
func (a *assignment) lag() int64 {
	return int64(a.inHand) + max(0, a.high.Load()-a.gate.Tail())
}

// retention is what was lost to it, by topic and partition.
func (e *engine) retention() (all []RetentionFigures) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, t := range e.topics {
		for p, n := range t.lost {
			all = append(all, RetentionFigures{Topic: name, Partition: p, Messages: n})
		}
	}
	slices.SortFunc(all, func(a, b RetentionFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}
