package kafka

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// latencyBounds are the bounds of the time to produce a record, in seconds.
var latencyBounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// made counts the outcomes of produced records. It costs a few atomic additions per
// record.
type made struct {
	stored, refused, unknown atomic.Uint64
	nanos, left              atomic.Int64
	counts                   [len(latencyBounds) + 1]atomic.Uint64
}

// note takes note of the outcome of a record that was handed to the client then.
func (m *made) note(began time.Time, err error) {
	switch {
	case err == nil:
		took := time.Since(began)
		m.stored.Add(1)
		m.nanos.Add(int64(took))
		m.counts[sort.SearchFloat64s(latencyBounds[:], took.Seconds())].Add(1)
	case isPermanent(err) || outcome(err) != store.ErrUnknown:
		m.refused.Add(1)
	default:
		m.unknown.Add(1)
	}
}

func (m *made) figures() Produced {
	p := Produced{Stored: m.stored.Load(), Refused: m.refused.Load(), Unknown: m.unknown.Load(),
		LeftAtFlush: m.left.Load()}
	p.Took = Spread{Bounds: latencyBounds[:], Counts: make([]uint64, len(m.counts)), Sum: time.Duration(m.nanos.Load())}
	for i := range m.counts {
		p.Took.Counts[i] = m.counts[i].Load()
	}
	return p
}

// deathTally counts the dead letters that were written.
type deathTally struct {
	mu     sync.Mutex
	byKind map[deathKind]*DeadFigures
	kinds  map[string]int // by topic
	recent map[string]*recentDead
}

type deathKind struct{ topic, kind string }

// maxKinds is how many kinds of a topic are told apart; handlers may make up any.
const maxKinds = 100

// recentDead are the keys of the last dead letters of a topic, in a ring.
type recentDead struct {
	keys [128]keyOfDead
	n    int // ever
}

type keyOfDead struct {
	hash uint64 // 0: without a key
	at   time.Time
}

// shareAge is for how long a dead letter counts for the share of its key.
const shareAge = time.Hour

// keySeed hides keys, and makes collisions hard to provoke.
var keySeed = maphash.MakeSeed()

// note takes note of a dead letter that was written.
func (t *deathTally) note(topic, kind string, key []byte, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKind == nil {
		t.byKind, t.kinds, t.recent = map[deathKind]*DeadFigures{}, map[string]int{}, map[string]*recentDead{}
	}
	f := t.byKind[deathKind{topic, kind}]
	if f == nil {
		if t.kinds[topic] >= maxKinds {
			kind = "other"
		}
		if f = t.byKind[deathKind{topic, kind}]; f == nil {
			t.kinds[topic]++
			f = &DeadFigures{Topic: topic, Kind: kind}
			t.byKind[deathKind{topic, kind}] = f
		}
	}
	f.Written++
	f.LastAt = at
	r := t.recent[topic]
	if r == nil {
		r = &recentDead{}
		t.recent[topic] = r
	}
	k := keyOfDead{at: at}
	if key != nil {
		k.hash = maphash.Bytes(keySeed, key) | 1
	}
	r.keys[r.n%len(r.keys)] = k
	r.n++
}

func (t *deathTally) figures() []DeadFigures {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []DeadFigures
	for _, f := range t.byKind {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b DeadFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// shares are the proportions of the recent dead letters that belong to the most
// frequent key, by topic.
func (t *deathTally) shares(now time.Time) map[string]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]float64{}
	for topic, r := range t.recent {
		count, n, most := map[uint64]int{}, 0, 0
		for _, k := range r.keys[:min(r.n, len(r.keys))] {
			if now.Sub(k.at) > shareAge {
				continue
			}
			n++
			if k.hash != 0 {
				count[k.hash]++
				most = max(most, count[k.hash])
			}
		}
		if n > 0 {
			all[topic] = float64(most) / float64(n)
		}
	}
	return all
}
