package kafka

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// ownership is the side of the engine that the group sees: the partitions that are held, and
// their committed progress.
type ownership struct{ *engine }

// maxCount is how many messages of a partition can be in hand.
const maxCount = gate.Window

// How many lanes are carried out at a time after deaths in a row: see the package comment,
// under Crashes. Deaths are in a row until everything that had been handed out is done, and a
// while longer.
const (
	someLanes  = 32 // after two deaths
	namedLanes = 4  // after three
	// cautiousSlack is how many offsets that goes on beyond the highest one that was handed out
	// according to the last commit.
	cautiousSlack = 256
	// The killer may lie further on than the last commit shows. So for some commit intervals
	// after that, an assignment is wary: deaths are still in a row, and after the second one
	// each claim is committed before it is carried out, so that the next death is on record
	// where it was.
	waryIntervals = 10
	// diedAlone is set in the recorded number of crashes while a message is carried out
	// alone: a death then is no reason to wait with that.
	diedAlone = 1 << 7
	// Where processes go on dying beside other work, each sixteenth death in a row lets messages
	// be tried alone all the same.
	trialEvery = 16
	mostDeaths = 7 * trialEvery // what is counted; after that from 6 * trialEvery on again
)

// assignment is a partition from when it was assigned to this process until it is taken
// away; assigned again, it is a new one. All state of the partition is here: nothing
// survives into the next assignment, and no counter has to be corrected.
type assignment struct {
	id        int32
	topic     *topic
	partition int32
	holder
	state    assignmentState
	fenced   bool // nothing of it may be committed any more
	gate     *gate.Gate
	lanes    map[string]*lane
	spare    []lane // to be used next
	laneID   uint32
	ring     []*flight // by offset, of a power of two
	inHand   int
	bytes    int
	leased   int // lanes
	dying    int // messages
	crowded  bool
	paused   bool          // fetching
	overflow []*kgo.Record // fetched, but there was no room
	waiting  int           // bytes of it
	known    bool          // it is known which offset comes next; guarded by feedMu
	high     atomic.Int64  // the high watermark, as the last fetch told
	epoch    atomic.Int32  // of the leader that wrote the last one that came; -1: none came
	quiet    chan struct{} // closed when nothing runs in it any more, once it is not live

	horizon  int64 // highest offset handed out; -1: nothing was
	danger   int64 // up to here deaths are in a row; -1: it has come further
	wary     int64 // and until then
	began    int64 // when it was assigned
	alone    bool  // the last death was that of a message carried out alone
	rested   bool  // the process that died had nothing in hand, as far as is known
	marked   bool  // it was tried to commit that something is handed out
	setAside []*lane
	crashes  uint8           // deaths in a row
	tries    map[int64]uint8 // messages to be carried out alone, by offset, and how often each was tried
	touched  bool            // since the last checkpoint
	owed     int64           // when it was touched first of what is in no checkpoint yet; 0: it was not
	asked    int64           // the same of the checkpoint that is being committed

	condemned map[int64]string // what is to be stepped over, and why, by offset

	acked atomic.Pointer[committedState] // what is committed, as far as is known
	tried atomic.Pointer[committedState] // what may be, because a commit was sent; nil: none was

	// of the committer
	bare   bool  // the last commit left out what is finished behind its offset
	bareAt int64 // with that offset
}

type assignmentState uint8

const (
	live     assignmentState = iota
	draining                 // being given up: nothing is handed out any more
	gone
)

// holder names the member of the group that got a partition, and the incarnation of its topic.
type holder struct {
	source  uint32 // stands for topicID in checkpoints
	topicID kadm.TopicID
	member  string
}

// beginning is the state of a partition when it is assigned, as far as it is known.
type beginning struct {
	holder
	at    int64           // what comes first; -1: nothing is known of it
	epoch int32           // of the leader that wrote the last one that came; -1: none came
	cp    gate.Checkpoint // what is finished behind it
	found committedState
	ahead bool // it is further than what is committed
}

// begin begins an assignment. It is complete before others, such as the committer, can find it.
func (e *ownership) begin(name string, partition int32, from beginning) *assignment {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topic(name)
	e.nextID++
	a := &assignment{
		id: e.nextID, topic: t, partition: partition, holder: from.holder, lanes: map[string]*lane{},
		tries: map[int64]uint8{}, condemned: map[int64]string{},
		quiet: make(chan struct{}), horizon: -1, danger: -1, began: e.now().UnixNano(),
		known: from.at >= 0,
	}
	a.epoch.Store(from.epoch)
	a.acked.Store(&from.found)
	if from.at >= 0 {
		a.gate = gate.Resume(from.at, from.cp)
	} else {
		a.gate = gate.New(0)
	}
	if from.cp.Open {
		e.recordDeath(a, from.cp)
	}
	if old := t.partitions[partition]; old != nil {
		e.dropLocked(old)
		old.fenced = true
	}
	t.partitions[partition] = a
	e.byID[a.id] = a
	if from.ahead {
		e.touch(a)
	}
	return a
}

// recordDeath records the messages that a dead process had in hand. If there were none
// according to its last commit, being wary is enough.
func (e *ownership) recordDeath(a *assignment, cp gate.Checkpoint) {
	a.alone = cp.Crashes&diedAlone != 0
	a.crashes = cp.Crashes &^ diedAlone
	for _, try := range cp.Tries {
		a.tries[try.Pos] = try.Count - 1
	}
	if cp.Base > cp.Horizon && len(cp.Tries) == 0 {
		a.rested = true
		e.extendCaution(a)
		return
	}
	if a.crashes++; a.crashes > mostDeaths {
		a.crashes -= trialEvery
	}
	a.danger = cp.Horizon + cautiousSlack
}

// extendCaution counts deaths as in a row for a while.
func (e *ownership) extendCaution(a *assignment) {
	a.wary = e.now().Add(waryIntervals * e.limits.Commit).UnixNano()
}

// mostLanes is how many lanes may be carried out at a time.
func (a *assignment) mostLanes() int {
	switch {
	case a.danger < 0 || a.crashes < 2:
		return maxCount
	case a.crashes == 2:
		return someLanes
	default:
		return namedLanes
	}
}

// named reports whether commits name the messages that are carried out.
func (a *assignment) named() bool { return a.crashes >= 3 }

// onRecord reports whether a claim is committed before it is carried out.
func (a *assignment) onRecord(now int64) bool {
	return a.danger >= 0 && a.named() || now < a.wary && (a.crashes >= 2 || a.rested)
}

// putOff reports whether nothing of it may be tried alone, for leases of that length: its
// processes died beside other work, and a message need not have been the cause. Where there is
// no room to name more, and after so many deaths, messages are tried alone at once.
func (a *assignment) putOff(now int64, lease time.Duration) bool {
	return !a.alone && a.named() && a.crashes%trialEvery != 0 && len(a.tries)+namedLanes <= gate.MaxTries &&
		now < a.began+int64(store.DeathsWithin*lease)
}

// register enters a message into the gate; false if the window is full. A message that is
// finished already counts as finished.
func (a *assignment) register(f *flight) bool {
	f.offset = f.rec.Offset
	switch a.gate.Register(f.offset) {
	case gate.Full:
		a.crowded = true
		return false
	case gate.Known:
		f.state = finished
		return true
	}
	a.list(f)
	if n, ok := a.tries[f.offset]; ok {
		t := f.troubled()
		t.rescues, t.lonely, t.reason = store.SolitaryAfter+int(n), int(n), "its process died"
		t.rescued = a.began
	}
	return true
}

// pass takes note of a record that is not a message: a marker of a transaction. False
// if the window is full.
func (a *assignment) pass(f *flight) bool {
	if a.gate.Register(f.rec.Offset) == gate.Full {
		a.crowded = true
		return false
	}
	a.gate.Finish(f.rec.Offset)
	f.state = finished
	return true
}

// hasRoom reports whether a message may be taken in; the first always may.
func (a *assignment) hasRoom(e *engine, size int) bool {
	if a.inHand == 0 {
		return true
	}
	if e.bytes+size > e.limits.Bytes {
		e.crowded = true
		return false
	}
	if a.inHand >= e.limits.Count || a.bytes+size > e.limits.PartBytes {
		a.crowded = true
		return false
	}
	return true
}

// list indexes a message by its offset.
func (a *assignment) list(f *flight) {
	span := f.offset - a.gate.Base() + 1
	if span > int64(len(a.ring)) {
		size := int64(1024)
		for size < span {
			size *= 2
		}
		ring := make([]*flight, size)
		for _, old := range a.ring {
			if old != nil {
				ring[old.offset&(size-1)] = old
			}
		}
		a.ring = ring
	}
	a.ring[f.offset&int64(len(a.ring)-1)] = f
}

func (a *assignment) unlist(f *flight) {
	if at := &a.ring[f.offset&int64(len(a.ring)-1)]; *at == f {
		*at = nil
	}
}

func (a *assignment) find(offset int64) *flight {
	if len(a.ring) == 0 {
		return nil
	}
	f := a.ring[offset&int64(len(a.ring)-1)]
	if f == nil || f.offset != offset {
		return nil
	}
	return f
}

// forget drops a lane if it is empty, once many are.
func (a *assignment) forget(l *lane) {
	if l.keyed && l.state == empty && l.head == nil && len(a.lanes) > 2*maxCount && a.lanes[l.key] == l {
		delete(a.lanes, l.key)
	}
}

func (a *assignment) handOut(offset int64) {
	a.leased++
	a.horizon = max(a.horizon, offset)
}

func (a *assignment) full() bool { return a.leased >= a.mostLanes() }

// checkpoint returns the state to commit. It names the suspects and, if they are few enough,
// the messages that are carried out.
func (e *ownership) checkpoint(a *assignment) gate.Checkpoint {
	a.touched = false
	if a.asked == 0 {
		a.asked = a.owed
	}
	a.owed = 0
	base := a.gate.Advance()
	e.pastDanger(a, base)
	// From the first message on, the commit stays open until the partition is given up: if it
	// were closed in between, the next message would have to wait until it is open again.
	extra := gate.Extra{Source: a.source, Open: a.horizon >= 0 || a.danger >= 0}
	if !extra.Open {
		return a.gate.Checkpoint(extra)
	}
	extra.Crashes, extra.Horizon = a.crashes, max(a.horizon, a.danger-cautiousSlack)
	if a.leased == 0 && a.danger < 0 {
		extra.Horizon = base - 1 // nothing is in hand, whatever holds up the base
	}
	for pos, n := range a.tries {
		extra.Tries = append(extra.Tries, gate.Try{Pos: pos, Count: n + 1})
	}
	for l := range e.heldOf(a) {
		l.trim()
		switch {
		case l.lease.alone:
			extra.Crashes |= diedAlone
		case a.named() && a.leased <= namedLanes:
			extra.Tries = append(extra.Tries, gate.Try{Pos: l.head.offset, Count: 1})
		}
	}
	return a.gate.Checkpoint(extra)
}

// pastDanger records that everything up to the horizon is done: deaths count as in a row for a
// while longer, then no more.
func (e *ownership) pastDanger(a *assignment, base int64) {
	now := e.now().UnixNano()
	switch {
	case a.danger >= 0 && base > a.danger:
		a.danger = -1
		e.extendCaution(a)
		e.resume(a)
	case a.danger < 0 && now >= a.wary:
		a.crashes, a.rested = 0, false
	}
}

// conclude ends an assignment, as drop does, and returns the last checkpoint to commit. The
// next owner goes on being cautious where this process was: the message that killed the one
// before is not found yet. Messages that are still carried out do not become suspects by that.
// The caller holds mu.
func (e *ownership) conclude(a *assignment) gate.Checkpoint {
	e.dropLocked(a)
	extra := gate.Extra{Source: a.source}
	base := a.gate.Advance()
	if a.danger < 0 || base > a.danger {
		if a.danger >= 0 || e.now().UnixNano() < a.wary { // the next one goes on being wary
			extra.Open, extra.Crashes, extra.Horizon = true, a.crashes, base-1
		}
		return a.gate.Checkpoint(extra)
	}
	extra.Open, extra.Crashes, extra.Horizon = true, a.crashes-1, a.danger-cautiousSlack
	if a.alone {
		extra.Crashes |= diedAlone
	}
	for pos, n := range a.tries {
		if f := a.find(pos); f != nil && f.trouble != nil {
			n = uint8(f.trouble.lonely)
		}
		extra.Tries = append(extra.Tries, gate.Try{Pos: pos, Count: n + 1})
	}
	return a.gate.Checkpoint(extra)
}

// resume lets a partition hand out messages that waited because too many lanes were at work.
func (e *engine) resume(a *assignment) {
	aside := a.setAside
	a.setAside = nil
	for _, l := range aside {
		e.reopen(l, 0, 0)
	}
}

// drain begins to give an assignment up: nothing more is handed out, and quiet is
// closed when nothing runs any more.
func (e *ownership) drain(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.state == live {
		a.state = draining
		a.settled()
	}
}

// drop ends an assignment of a partition that already belongs to another process.
// Messages that are still carried out are fenced: the results of their handlers change
// nothing. Their lanes leave leftovers behind.
func (e *ownership) drop(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropLocked(a)
	a.fenced = true
}

// owned reports whether a member may commit assignments: it is the one that got them, and
// still has them.
func (e *ownership) owned(entries map[place]commitEntry, member string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range entries {
		if a := entry.of; a.fenced || a.member != member {
			return false
		}
	}
	return member != ""
}

func (e *engine) dropLocked(a *assignment) {
	if a.state == gone {
		return
	}
	a.state = gone
	e.bytes -= a.bytes
	a.bytes = 0
	if a.topic.partitions[a.partition] == a {
		delete(a.topic.partitions, a.partition)
	}
	running := 0
	for l := range e.heldOf(a) {
		e.leftovers[leftoverName(l, l.head.offset)] = &leftover{old: l}
		e.overlaps++
		running++
	}
	if running == 0 {
		delete(e.byID, a.id)
	}
	a.settled()
	signal(e.room)
}

// leftoverName is the same for the lane of a key in every assignment of a topic.
func leftoverName(l *lane, offset int64) string {
	if l.keyed {
		return l.of.topic.Name + "\x00" + l.key
	}
	return placeID(l.of.topic.Name, l.of.partition, offset)
}

// openAfterLeftover opens the lane that waited for a handler of an earlier assignment.
func (e *engine) openAfterLeftover(old *lane) {
	if old.of.state != gone {
		return
	}
	if old.of.leased == 0 {
		delete(e.byID, old.of.id)
	}
	for name, g := range e.leftovers {
		if g.old != old {
			continue
		}
		delete(e.leftovers, name)
		if l := g.waiting; l != nil && l.of.state == live && l.state == stuck {
			l.state = empty
			e.reopen(l, 0, 0)
		}
	}
}

// settled closes quiet when nothing runs any more in an assignment that ends.
func (a *assignment) settled() {
	if a.state == live || a.leased+a.dying > 0 && a.state != gone {
		return
	}
	select {
	case <-a.quiet:
	default:
		close(a.quiet)
	}
}
