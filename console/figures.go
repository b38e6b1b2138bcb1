package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
)

// Figures of topics are read once for all tabs, often while somebody looks, and kept for a day.
const (
	restEvery   = 10 * time.Second
	fineSamples = int(time.Hour / restEvery)
	coarseEvery = 5 * time.Minute
	manySamples = int(24 * time.Hour / coarseEvery)
	maxTopics   = 500 // whose past is kept
)

// sample is what a topic was like at a time.
type sample struct {
	At                             time.Time
	Waiting, Delayed, Leased, Dead int64
	Appended, Acked, Retried       int64
	Oldest                         float64
}

// past is what a topic was like: each 10 s of an hour, each 5 minutes of a day.
type past struct{ fine, coarse []sample }

// figures are those of the topics of a store.
type figures struct {
	mu      sync.Mutex
	topics  []operate.Topic
	at      time.Time
	err     error
	past    map[string]*past
	changed chan struct{} // closed at the next change
	readers int
	hurry   chan struct{}
	waits   func() (bounds []float64, counts map[string][]uint64) // nil: not known
	waited  []waitCount                                           // of the last minute
}

// waitCount are waits that were counted up to a time, by topic and bound.
type waitCount struct {
	at     time.Time
	bounds []float64
	counts map[string][]uint64
}

// run reads the figures until ctx ends.
func (f *figures) run(ctx context.Context, s *site) {
	all := everything()
	for ctx.Err() == nil {
		began := time.Now()
		_, text, err := s.api.Call(ctx, all, http.MethodGet, "/v1/topics?limit=10000", nil)
		var topics []operate.Topic
		if err == nil {
			err = json.Unmarshal(text, &topics)
		}
		f.keep(topics, err, time.Now())
		f.mu.Lock()
		every := restEvery
		if f.readers > 0 {
			every = tickEvery
		}
		f.mu.Unlock()
		every = max(every, time.Since(began)*memoFactor)
		select {
		case <-ctx.Done():
		case <-f.hurry:
		case <-time.After(every):
		}
	}
}

// keep takes new figures, and wakes who waits for a change of them.
func (f *figures) keep(all []operate.Topic, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits != nil {
		bounds, counts := f.waits()
		f.waited = append(f.waited, waitCount{now, bounds, counts})
		for len(f.waited) > 2 && now.Sub(f.waited[1].at) >= time.Minute {
			f.waited = f.waited[1:]
		}
	}
	changed := (err == nil) != (f.err == nil) || !sameFigures(f.topics, all)
	if f.err = err; err == nil {
		for i := range all {
			f.remember(&all[i], now)
		}
		f.topics, f.at = all, now
	}
	if changed {
		f.tell()
	}
}

// tell says to all open pages that something changed; the caller holds the lock.
func (f *figures) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func sameFigures(a, b []operate.Topic) bool {
	return slices.EqualFunc(a, b, func(a, b operate.Topic) bool {
		return a.Topic == b.Topic && a.Waiting == b.Waiting && a.Delayed == b.Delayed && a.Leased == b.Leased &&
			a.Dead == b.Dead && a.AppendedTotal == b.AppendedTotal && a.AckedTotal == b.AckedTotal &&
			a.RetriedTotal == b.RetriedTotal && a.Paused == b.Paused &&
			a.Version == b.Version && a.Resolved == b.Resolved
	})
}

func (f *figures) remember(t *operate.Topic, now time.Time) {
	p := f.past[t.Topic]
	if p == nil {
		if len(f.past) >= maxTopics {
			return
		}
		p = &past{}
		f.past[t.Topic] = p
		if !f.at.IsZero() { // it is new since then
			p.fine, p.coarse = []sample{{At: f.at}}, []sample{{At: f.at}}
		}
	}
	s := sample{At: now, Waiting: t.Waiting, Delayed: t.Delayed, Leased: t.Leased, Dead: t.Dead,
		Appended: t.AppendedTotal, Acked: t.AckedTotal, Retried: t.RetriedTotal}
	if t.OldestWaitingSeconds != nil {
		s.Oldest = *t.OldestWaitingSeconds
	}
	add := func(to []sample, every time.Duration, most int) []sample {
		if n := len(to); n > 1 && to[n-1].At.Sub(to[n-2].At) < every-time.Second {
			to[n-1] = s // the last one is what is so now
			return to
		}
		if len(to) >= most {
			to = append(to[:0], to[1:]...)
		}
		return append(to, s)
	}
	p.fine, p.coarse = add(p.fine, restEvery, fineSamples), add(p.coarse, coarseEvery, manySamples)
}

// watch counts a reader in, and returns how to wait for a change, and how to leave.
func (f *figures) watch() (next func() <-chan struct{}, leave func()) {
	f.mu.Lock()
	f.readers++
	first := f.readers == 1
	f.mu.Unlock()
	if first {
		select {
		case f.hurry <- struct{}{}:
		default:
		}
	}
	return func() <-chan struct{} {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.changed
		}, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.readers--
		}
}

// of returns the past of a topic, an hour or a day of it.
func (f *figures) of(topic string, day bool) []sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.past[topic]
	switch {
	case p == nil:
		return nil
	case day:
		return slices.Clone(p.coarse)
	default:
		return slices.Clone(p.fine)
	}
}

// everything is a caller who may read all, for what all tabs have in common.
func everything() api.Caller {
	all, err := api.Person("console", api.Viewer)
	if err != nil {
		panic(err) // there is this role
	}
	return all
}

// sum is the past of several topics together: the oldest is that of all.
func (f *figures) sum(topics []string, day bool) []sample {
	var all []sample
	for _, name := range topics {
		past := f.of(name, day)
		if all == nil {
			all = past
			continue
		}
		for i, j := len(all)-1, len(past)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
			a, b := &all[i], &past[j]
			a.Waiting, a.Delayed = a.Waiting+b.Waiting, a.Delayed+b.Delayed
			a.Leased, a.Dead = a.Leased+b.Leased, a.Dead+b.Dead
			a.Appended, a.Acked, a.Retried = a.Appended+b.Appended, a.Acked+b.Acked, a.Retried+b.Retried
			a.Oldest = max(a.Oldest, b.Oldest)
		}
	}
	return all
}

// rates are how fast a topic goes, over the last minute or what of it there is.
type rates struct {
	Acked, Failed, Appended float64 // a second
	NewDead                 int64   // in the last hour
	Known                   bool
}

func ratesOf(past []sample) (r rates) {
	if len(past) < 2 {
		return r
	}
	last := &past[len(past)-1]
	from := &past[max(len(past)-1-int(time.Minute/restEvery), 0)]
	seconds := last.At.Sub(from.At).Seconds()
	grown := func(now, then int64) float64 { return float64(max(now-then, 0)) / seconds }
	return rates{Known: true, Acked: grown(last.Acked, from.Acked), Appended: grown(last.Appended, from.Appended),
		Failed:  grown(last.Retried, from.Retried) + grown(last.Dead, from.Dead),
		NewDead: max(last.Dead-past[0].Dead, 0)}
}

// wait is how long deliveries of the last minute have waited: half of them, and 99 of 100, no longer than this.
type wait struct {
	Half, Most float64 // seconds
	Measured   bool
}

// waitOf is that of some topics together.
func (f *figures) waitOf(topics ...string) (w wait) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waited) < 2 {
		return w
	}
	last, first := &f.waited[len(f.waited)-1], &f.waited[0]
	grown := make([]uint64, len(last.bounds)+1)
	var all uint64
	for _, topic := range topics {
		for i, n := range last.counts[topic] {
			if before := first.counts[topic]; i < len(before) {
				n -= before[i]
			}
			grown[i], all = grown[i]+n, all+n
		}
	}
	bound := func(share float64) float64 {
		var below uint64
		for i, n := range grown {
			if below += n; float64(below) >= share*float64(all) {
				return last.bounds[min(i, len(last.bounds)-1)]
			}
		}
		return 0
	}
	if all == 0 {
		return w
	}
	return wait{Half: bound(.5), Most: bound(.99), Measured: true}
}
