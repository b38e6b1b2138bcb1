package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// pieceOfTake is how many records are taken in at once.
const pieceOfTake = 512

// take takes in records of a partition that were fetched, in order, and returns how many: fewer
// than all when there is no room for more. It goes on in pieces, so that a claim does not wait
// long, and records without room cost little. There is one take of a partition at a time.
func (e *engine) take(a *assignment, records []*kgo.Record) (taken int) {
	for taken < len(records) {
		fit, ok := e.roomFor(a, len(records)-taken)
		if !ok {
			return len(records) // fetched again by whoever has the partition now
		}
		fit = min(fit, pieceOfTake)
		n := e.admit(a, prepare(records[taken:taken+fit]))
		if taken += n; n < fit || fit == 0 {
			break
		}
	}
	return taken
}

// roomFor returns how many of n more messages are worth a look, and whether the partition
// is ours at all.
func (e *engine) roomFor(a *assignment, n int) (fit int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.state != live:
		return 0, false
	case !a.hasRoom(e, 0):
		return 0, true
	}
	fit = min(n, max(1, e.limits.Count-a.inHand))
	if fit < n {
		a.crowded = true // for those that are left
	}
	return fit, true
}

// prepare decodes records. It does so without the engine's lock, for which claims and
// settlements wait.
func prepare(records []*kgo.Record) []flight {
	flights := make([]flight, len(records))
	for i, r := range records {
		flights[i].rec, flights[i].size = r, sizeOf(r)
		flights[i].remember(r)
	}
	return flights
}

// admit puts messages into their lanes, as far as there is room, and returns how far.
func (e *engine) admit(a *assignment, flights []flight) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.state != live {
		return len(flights)
	}
	woken := false
	for n < len(flights) && a.enter(e, &flights[n]) {
		f := &flights[n]
		n++
		if f.state == finished {
			continue
		}
		l := e.laneOf(a, f)
		l.append(f)
		if l.state == empty {
			e.open(l)
			woken = true
		}
	}
	if woken {
		e.wake(a.topic.Name)
	}
	return n
}

// laneOf returns the lane of a message. A new one is blocked while a handler of the same key
// runs that got its message in an earlier assignment. Lanes are made many at a time.
func (e *engine) laneOf(a *assignment, f *flight) *lane {
	keyed := a.topic.Order == store.OrderKey && f.rec.Key != nil
	if keyed {
		if l := a.lanes[string(f.rec.Key)]; l != nil {
			return l
		}
	}
	if len(a.spare) == 0 {
		a.spare = make([]lane, 64)
	}
	l := &a.spare[0]
	a.spare = a.spare[1:]
	a.laneID++
	l.of, l.id = a, a.laneID
	if keyed {
		l.keyed, l.key = true, string(f.rec.Key)
		a.lanes[l.key] = l
	}
	if len(e.leftovers) > 0 {
		if g := e.leftovers[leftoverName(l, f.offset)]; g != nil {
			g.waiting, l.state = l, stuck
		}
	}
	return l
}

// enter counts a record in; false if there is no room for it.
func (a *assignment) enter(e *engine, f *flight) bool {
	if f.rec.Attrs.IsControl() {
		return a.pass(f)
	}
	if !a.hasRoom(e, f.size) || !a.register(f) {
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
