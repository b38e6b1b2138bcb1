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
	mu     sync.Mutex
	byBand map[int64]*floor
	size   map[int32]float64 // of a topic's messages, on average
	bands  map[int32]int     // in how many of a topic's bands tickets were found last
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
	if f.byBand == nil {
		f.byBand = map[int64]*floor{}
	}
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
	if f.size == nil {
		f.size = map[int32]float64{}
	}
	one := float64(bytes) / float64(messages)
	if before, ok := f.size[topic]; ok {
		one = 0.8*before + 0.2*one
	}
	f.size[topic] = one
}

// tickets is how many tickets to take for what is wanted: no more than a bound
// on bytes is likely to let through, because the others have to be given back.
func (f *floors) tickets(topic int32, w store.Want) int {
	if w.MaxBytes == 0 {
		return w.Limit
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.size[topic]
	if !ok {
		return min(w.Limit, 64)
	}
	return min(w.Limit, int(float64(w.MaxBytes)/max(one, 1))+2)
}

// found notes in how many bands of a topic there were tickets.
func (f *floors) found(topic int32, bands int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bands == nil {
		f.bands = map[int32]int{}
	}
	f.bands[topic] = bands
}

// oneBand tells whether the tickets of a topic were in one band, last.
func (f *floors) oneBand(topic int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bands[topic] == 1
}
