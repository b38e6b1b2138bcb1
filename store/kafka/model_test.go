package kafka

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// model is a partition, a process after the other that has it, and what must be
// so, whatever happens.
type model struct {
	t       *rapid.T
	rig     *rig
	a       *assignment
	keys    []string // of the messages of the log, by offset
	fetched int64
	running []given        // by handlers, also of earlier assignments
	gone    []given        // settled, or expired
	over    map[int64]bool // came to an accepted end, in any life
	here    map[int64]bool // in this assignment, or known to it from the commit
	saved   gate.Checkpoint
	kept    map[int64]bool // over at the time of the commit
}

func (m *model) fatal(format string, args ...any) { m.t.Fatalf(format, args...) }

// begin is an assignment from what was committed last.
func (m *model) begin() {
	m.a = m.rig.resume(m.saved)
	m.here = maps.Clone(m.kept)
	m.fetched = m.saved.Base
}

func (m *model) fetch() {
	n := min(int64(rapid.IntRange(1, 8).Draw(m.t, "records")), int64(len(m.keys))-m.fetched)
	for range n {
		if m.rig.engine.take(m.a, records(m.fetched, m.keys[m.fetched])) == 0 {
			return // no room
		}
		m.fetched++
	}
}

func (m *model) claim() {
	terms := store.Lease{For: time.Minute, Alone: len(m.running) == 0}
	for _, g := range m.rig.claimWith(rapid.IntRange(1, 4).Draw(m.t, "limit"), terms) {
		at := g.flight.rec.Offset
		key := m.keys[at]
		switch {
		case g.flight.lane.of != m.a:
			m.fatal("%d is handed out of an assignment that is over", at)
		case m.here[at]:
			m.fatal("%d is handed out although it is finished", at)
		}
		for before := int64(0); before < at && key != ""; before++ {
			if m.keys[before] == key && !m.over[before] {
				m.fatal("%d is handed out before %d, of the same key, is over", at, before)
			}
		}
		for _, other := range m.running {
			if o := other.flight.rec.Offset; o == at || key != "" && m.keys[o] == key {
				m.fatal("%d is handed out while %d is carried out", at, o)
			}
		}
		m.running = append(m.running, g)
	}
}

func (m *model) settle() {
	if len(m.running) == 0 {
		m.t.Skip("nothing runs")
	}
	i := rapid.IntRange(0, len(m.running)-1).Draw(m.t, "which")
	g := m.running[i]
	m.running = append(m.running[:i:i], m.running[i+1:]...)
	m.gone = append(m.gone, g)
	st := store.Settlement{Verdict: rapid.SampledFrom([]store.Verdict{store.Ack, store.Ack, store.Ack, store.Retry,
		store.Release, store.Dead}).Draw(m.t, "verdict")}
	if st.Verdict == store.Retry || st.Verdict == store.Release {
		st.After = time.Duration(rapid.IntRange(0, 5).Draw(m.t, "after")) * time.Second
	}
	ok := m.rig.settle(g, st)
	if ok != (g.flight.lane.of == m.a) {
		m.fatal("%v of %d: accepted %v", st.Verdict, g.flight.rec.Offset, ok)
	}
	if ok && st.Verdict == store.Ack {
		m.over[g.flight.rec.Offset], m.here[g.flight.rec.Offset] = true, true
	}
}

// again settles what was settled, or had expired.
func (m *model) again() {
	if len(m.gone) == 0 {
		m.t.Skip("nothing was settled")
	}
	g := rapid.SampledFrom(m.gone).Draw(m.t, "stale")
	if m.rig.settle(g, store.Settlement{Verdict: store.Ack}) {
		m.fatal("a stale token of %d counts", g.flight.rec.Offset)
	}
}

// writeDead writes the dead letters.
func (m *model) writeDead() {
	for _, d := range m.rig.engine.takeDeaths() {
		m.rig.engine.letterWritten(d)
		m.over[d.flight.rec.Offset], m.here[d.flight.rec.Offset] = true, true
	}
}

// skip steps over a message in hand, whatever is done with it at the moment.
func (m *model) skip() {
	var inHand []int64
	for at := range m.fetched {
		if m.a.find(at) != nil {
			inHand = append(inHand, at)
		}
	}
	if len(inHand) == 0 {
		m.t.Skip("nothing is in hand")
	}
	m.rig.skip(rapid.SampledFrom(inHand).Draw(m.t, "skipped"))
}

func (m *model) commit() { m.keep(m.rig.checkpoint(m.a)) }

// keep is a commit that was written.
func (m *model) keep(cp gate.Checkpoint) {
	for at := range cp.Base {
		if !m.over[at] {
			m.fatal("%d is committed, %d is not finished", cp.Base, at)
		}
	}
	for at := range cp.Finished() {
		if !m.over[at] {
			m.fatal("%d is committed as finished and is not", at)
		}
	}
	for at := range m.here {
		if !cp.Has(at) {
			m.fatal("%d was finished before the commit, which does not know it", at)
		}
	}
	m.saved, m.kept = cp, maps.Clone(m.here)
}

// wait lets leases expire, and retries come due.
func (m *model) wait() {
	d := time.Duration(rapid.SampledFrom([]int{1, 6, 61}).Draw(m.t, "seconds")) * time.Second
	m.rig.pass(d)
	if d > time.Minute {
		m.gone, m.running = append(m.gone, m.running...), nil
	}
}

// lose is a partition that is somebody else's, and comes back from what was
// committed. Handlers go on.
func (m *model) lose() {
	m.rig.ownership.drop(m.a)
	m.begin()
}

// giveUp is a partition that is given back in order, and comes back.
func (m *model) giveUp() {
	m.rig.ownership.drain(m.a)
	m.writeDead()
	m.claim()
	m.keep(m.rig.ownership.conclude(m.a))
	m.begin()
}

// crash is the end of the process, and of its handlers.
func (m *model) crash() {
	m.rig.engine.shutDown()
	m.rig = newRig(m.rig.t, m.rig.engine.limits)
	m.running, m.gone = nil, nil
	m.begin()
}

// finish carries out what is left: nothing may be stuck.
func (m *model) finish() {
	for round := 0; m.fetched < int64(len(m.keys)) || m.a.inHand > 0 || len(m.running) > 0; round++ {
		if round > 50*len(m.keys)+200 {
			m.fatal("%d of %d are over, and nothing goes on: in hand %d, leftovers %d", len(m.over), len(m.keys),
				m.a.inHand, len(m.rig.engine.leftovers))
		}
		m.rig.pass(2 * time.Second)
		m.rig.take(m.a) // nothing, which is always possible
		for m.fetched < int64(len(m.keys)) && m.rig.engine.take(m.a, records(m.fetched, m.keys[m.fetched])) == 1 {
			m.fetched++
		}
		m.writeDead()
		for _, g := range m.running {
			if m.rig.ack(g) {
				m.over[g.flight.rec.Offset], m.here[g.flight.rec.Offset] = true, true
			}
		}
		m.running = nil
		m.claim()
		m.commit()
	}
	e := m.rig.engine
	if m.a.inHand != 0 || m.a.bytes != 0 || e.bytes != 0 || m.a.leased != 0 || m.a.dying != 0 || len(m.a.tries) != 0 {
		m.fatal("in hand %d, bytes %d and %d, leased %d, dying %d, tries %v", m.a.inHand, m.a.bytes, e.bytes,
			m.a.leased, m.a.dying, m.a.tries)
	}
	if len(e.leftovers) != 0 || len(e.timed.Lanes) != 0 || len(e.byID) != 1 {
		m.fatal("leftovers %d, assignments %d", len(e.leftovers), len(e.byID))
	}
	if cp := m.rig.checkpoint(m.a); cp.Base != int64(len(m.keys)) {
		m.fatal("committed up to %d of %d", cp.Base, len(m.keys))
	}
}

// TestModel: a partition comes and goes, its processes die, handlers say what they
// like when they like. Nothing is lost, a key keeps its order, what a commit says
// is so, and everything comes to its end.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limits := Consuming{Count: rapid.SampledFrom([]int{3, 10, maxCount}).Draw(rt, "count")}
		m := &model{t: rt, rig: newRig(t, limits), over: map[int64]bool{}, here: map[int64]bool{},
			kept: map[int64]bool{}}
		for range rapid.IntRange(1, 40).Draw(rt, "messages") {
			m.keys = append(m.keys, rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(rt, "key"))
		}
		m.saved = gate.New(0).Checkpoint(gate.Extra{Source: 1})
		m.begin()
		rt.Repeat(map[string]func(*rapid.T){
			"fetch": func(*rapid.T) { m.fetch() }, "claim": func(*rapid.T) { m.claim() }, "settle": func(*rapid.T) {
				m.settle()
			},
			"again": func(*rapid.T) { m.again() }, "import": func(*rapid.T) { m.writeDead() }, "commit": func(*rapid.T) {
				m.commit()
			},
			"wait": func(*rapid.T) { m.wait() }, "lose": func(*rapid.T) { m.lose() }, "give up": func(*rapid.T) {
				m.giveUp()
			},
			"crash": func(*rapid.T) { m.crash() }, "skip": func(*rapid.T) { m.skip() },
		})
		m.finish()
	})
}
