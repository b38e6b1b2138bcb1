package postgres

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// floors remember how far claims have come in each band, so that they need not step over the
// index entries of all tickets taken since the last vacuum, which a long transaction may keep
// for hours. Ranks are times; a message that commits late is below the floor. So every second a
// claim looks far below it, and now and then everywhere. Appends that may commit very late have
// tickets of generation "again", which have no floor.
type floors struct {
	mu         sync.Mutex
	byBand     map[int64]*floor
	size       map[int32]float64 // of a topic's messages, on average
	yield      map[int32]float64 // how many messages a ticket of a topic brings
	priorities map[int32]int     // how many of them a topic has seen
	stays      int               // how often tickets stayed where they were
	version    map[int32]int64   // of a topic's settings, when a claim was noted last
	at         int64             // the server's time in microseconds, by the last claim that was noted ...
	noted      time.Time         // ... and when that was
}

func newFloors() *floors {
	return &floors{
		byBand: map[int64]*floor{}, size: map[int32]float64{}, yield: map[int32]float64{}, priorities: map[int32]int{},
		version: map[int32]int64{},
	}
}

type floor struct {
	top        int64 // the highest rank taken
	left       int64 // the lowest rank of tickets that stayed where they were, if stay is not 0
	stay       int   // which time that was
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

// of returns the bands of a topic with their floors, and how often tickets have stayed by
// now.
func (f *floors) of(t *topic) (bands, ranks []int64, known int) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for band, fl := range f.byBand {
		if band/bandSpan != int64(t.id) {
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
		if fl.stay > 0 {
			rank = min(rank, fl.left)
		}
		bands, ranks = append(bands, band), append(ranks, within(rank, t, band, f.at+now.Sub(f.noted).Microseconds()))
	}
	return bands, ranks, f.stays
}

// within keeps a floor from hiding messages that are appended now, at the server's time. The
// highest rank taken is above that where messages are from a time when the topic aged more
// slowly, and after the server's clock was set back: then it may stay so for hours.
func within(rank int64, t *topic, band, now int64) int64 {
	prio := band % (generation & -generation)
	if fresh := now + store.ToCap(int(prio), t.Ageing); rank > fresh+wideEvery.Microseconds() {
		return fresh - slackWide
	}
	return rank
}

// note updates the floors and the yield of a topic after a claim.
func (f *floors) note(c *claiming) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.there {
		f.at, f.noted = c.at, time.Now()
	}
	if before := f.version[c.topic.id]; before != c.version {
		f.version[c.topic.id] = c.version
		if before != 0 {
			f.dropLocked(c.topic.id) // ranks may be lower from now on
		}
	}
	for _, t := range c.tops {
		f.raise(t)
	}
	for band, fl := range f.byBand {
		if band/bandSpan == int64(c.topic.id) {
			fl.short = c.short()
		}
	}
	f.stayed(c)
	f.learn(c)
}

// raise notes the highest rank that a claim got of a band.
func (f *floors) raise(t top) {
	if t.band&generation != 0 {
		return
	}
	fl := f.byBand[t.band]
	if fl == nil {
		fl = &floor{wide: time.Now(), full: time.Now(), top: t.rank}
		f.byBand[t.band] = fl
	}
	fl.top = max(fl.top, t.rank)
}

// stayed notes the tickets that a claim left in place: the next one must look there again.
// Tickets that stayed earlier are forgotten when a claim that knew of them has come as far.
func (f *floors) stayed(c *claiming) {
	for band, fl := range f.byBand {
		past := func(t top) bool { return t.band == band && t.rank >= fl.left }
		if fl.stay > 0 && fl.stay <= c.known && band/bandSpan == int64(c.topic.id) &&
			(slices.ContainsFunc(c.tops, past) || slices.ContainsFunc(c.left, past) || c.short()) {
			fl.stay = 0
		}
	}
	for _, l := range c.left {
		f.raise(l) // where there is no floor yet, a claim sent at the same time may make one
		fl := f.byBand[l.band]
		if fl == nil {
			continue
		}
		if fl.stay > 0 {
			l.rank = min(l.rank, fl.left)
		}
		f.stays++
		fl.left, fl.stay = l.rank, f.stays
	}
}

// drop forgets the floors of a topic: its ranks may be lower from now on.
func (f *floors) drop(topic int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(topic)
}

func (f *floors) dropLocked(topic int32) {
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

// tickets is how many tickets to take for a claim: no more than a bound on bytes is likely to
// allow, because the others have to be given back; fewer if lanes are deep, more if most
// tickets are spent.
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

// learn updates the yield of a topic after a claim. A claim that went on for a few missing
// messages says little about it.
func (f *floors) learn(c *claiming) {
	f.priorities[c.topic.id] = c.priorities
	if c.taken == 0 || c.topic.Order != store.OrderKey || c.before > 0 && c.taken < telling {
		return
	}
	y := max(float64(len(c.heads))/float64(c.taken), minYield)
	if before := f.yield[c.topic.id]; before > 0 {
		y = (y + before) / 2
	}
	f.yield[c.topic.id] = y
}

// telling is how many tickets the rest of a claim must have taken to tell anything.
const telling = 32

// minYield is the least yield that is believed in.
const minYield = 0.25

// onePriority reports whether a topic has seen one priority only.
func (f *floors) onePriority(topic int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.priorities[topic] == 1
}
