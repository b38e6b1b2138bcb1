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
}

// run reads the figures until ctx ends.
func (f *figures) run(ctx context.Context, s *shop) {
	everything, err := api.Person("console", api.Viewer)
	if err != nil {
		panic(err) // there is this role
	}
	for ctx.Err() == nil {
		_, text, err := s.api.Call(ctx, everything, http.MethodGet, "/v1/topics?limit=10000", nil)
		var all []operate.Topic
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		f.keep(all, err, time.Now())
		f.mu.Lock()
		every := restEvery
		if f.readers > 0 {
			every = tickEvery
		}
		f.mu.Unlock()
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
	changed := (err == nil) != (f.err == nil) || !sameFigures(f.topics, all)
	if f.err = err; err == nil {
		f.topics, f.at = all, now
		for i := range all {
			f.remember(&all[i], now)
		}
	}
	if changed {
		close(f.changed)
		f.changed = make(chan struct{})
	}
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
	}
	s := sample{At: now, Waiting: t.Waiting, Delayed: t.Delayed, Leased: t.Leased, Dead: t.Dead,
		Appended: t.AppendedTotal, Acked: t.AckedTotal, Retried: t.RetriedTotal}
	if t.OldestWaitingSeconds != nil {
		s.Oldest = *t.OldestWaitingSeconds
	}
	add := func(to []sample, every time.Duration, most int) []sample {
		if n := len(to); n > 0 && now.Sub(to[n-1].At) < every-time.Second {
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

// now are the topics as they were read last.
func (f *figures) now() []operate.Topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics
}
