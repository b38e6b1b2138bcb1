package postgres

import (
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// floors remember how far claims have come in each band, so that they need not
// step over the index entries of all tickets taken since the last vacuum, which
// a long transaction may keep for hours. Ranks are times; whatever commits late
// is below the floor. So every second a claim looks far below, and now and then
// everywhere. Appends that may commit very late have tickets of generation
// "again", which have no floor.
type floors struct {
	mu         sync.Mutex
	byBand     map[int64]*floor
	size       map[int32]float64 // of a topic's messages, on average
	yield      map[int32]float64 // how many messages a ticket of a topic brings
	priorities map[int32]int     // how many of them a topic has seen
}

func newFloors() *floors {
	return &floors{
		byBand: map[int64]*floor{}, size: map[int32]float64{}, yield: map[int32]float64{}, priorities: map[int32]int{},
	}
}

type floor struct {
	top        int64 // the highest rank taken
	short      bool  // the last claim got less than it wanted
	wide, full time.Time
}

// How far below the top a claim looks, in microseconds of rank, and how often.
const (
	slackUsual = 50_000
	slackShort = 500_000
	slackWide  = 35_000_000 // more than the longest append
	wideEvery  = time.Second
	fullEvery  = 30 * time.Second
)

// of returns the bands of a topic with their floors.
func (f *floors) of(topic int32) (bands, ranks []int64) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for band, fl := range f.byBand {
		if band/bandSpan != int64(topic) {
			continue
		}
		rank := fl.top - slackUsual
		switch {
		case now.Sub(fl.full) >= fullEvery:
			fl.full, fl.wide = now, now
			rank = math.MinInt64
		case now.Sub(fl.wide) >= wideEvery:
			fl.wide = now
			rank = fl.top - slackWide
		case fl.short:
			rank = fl.top - slackShort
		}
		bands, ranks = append(bands, band), append(ranks, rank)
	}
	return bands, ranks
}

// taken notes what a claim got of a band.
func (f *floors) taken(band, top int64) {
	if band&generation != 0 {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byBand[band]
	if fl == nil {
		fl = &floor{wide: now, full: now}
		f.byBand[band] = fl
	}
	fl.top = max(fl.top, top)
}

// short notes whether a claim of a topic got less than it wanted.
func (f *floors) short(topic int32, short bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for band, fl := range f.byBand {
		if band/bandSpan == int64(topic) {
			fl.short = short
		}
	}
}

// drop forgets the floors of a topic: its ranks may be lower from now on.
func (f *floors) drop(topic int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for band := range f.byBand {
		if band/bandSpan == int64(topic) {
			delete(f.byBand, band)
		}
	}
}

// sized notes how large messages of a topic were.
func (f *floors) sized(topic int32, bytes, messages int) {
	if messages == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one := float64(bytes) / float64(messages)
	if before, ok := f.size[topic]; ok {
		one = 0.8*before + 0.2*one
	}
	f.size[topic] = one
}

// tickets is how many tickets to take for what is wanted: no more than a bound
// on bytes is likely to let through, because the others have to be given back;
// fewer where lanes are deep, more where most tickets are spent.
func (f *floors) tickets(t *topic, w store.Want) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := w.Limit
	if y := f.yield[t.id]; y > 0 && t.Order == store.OrderKey {
		n = max(min(int(float64(n)/min(y, float64(w.Run)))+1, 2*w.Limit), 1)
	}
	if w.MaxBytes == 0 {
		return n
	}
	one, ok := f.size[t.id]
	if !ok {
		return min(n, 64)
	}
	return min(n, int(float64(w.MaxBytes)/max(one, 1))+2)
}

// learn takes from a claim what the next ones go by.
func (f *floors) learn(c *claiming) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.priorities[c.topic.id] = c.priorities
	if c.taken == 0 || c.topic.Order != store.OrderKey {
		return
	}
	y := max(float64(len(c.heads))/float64(c.taken), minYield)
	if before := f.yield[c.topic.id]; before > 0 {
		y = (y + before) / 2
	}
	f.yield[c.topic.id] = y
}

// minYield is the least yield that is believed in.
const minYield = 0.25

// onePriority tells whether a topic has seen one priority only.
func (f *floors) onePriority(topic int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.priorities[topic] == 1
}
