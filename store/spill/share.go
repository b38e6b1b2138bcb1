package spill

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// share announces to other processes with the same fallback store that this one may
// have rows there, and learns the same about them. Each has an entry in the state of
// the fallback store, which is not empty while keys are latched there.
//
// Whoever spills makes sure that its entry has been there for [Config.Watch] before the
// call returns; everybody looks at the entries at least that often. So a process that
// begins an append after that call has returned knows that it has to ask. Only
// durations are compared, each on one machine's clock.
type share struct {
	entries     store.Shared // nil: this process is alone
	key, prefix string
	owner       string
	watch       time.Duration
	stop        context.Context
	others      atomic.Bool // another process may have rows

	mu      sync.Mutex
	active  bool
	putAt   time.Time // when the last put that succeeded was begun
	puts    oneAtATime
	looks   oneAtATime
	tried   time.Time // when the last look was begun
	failing bool      // it failed
	looked  time.Time // when the last look that succeeded was begun
	version int64
	foreign map[string]foreignEntry
}

// foreignEntry is what was last seen of another process.
type foreignEntry struct {
	version int64
	active  bool
	seen    time.Time // since when it has that version
}

const (
	refreshAfter = 20 * time.Second // an entry is put anew
	deadAfter    = 2 * time.Minute  // an entry that was not is that of a process that died
)

func shareKey(prefix string) string { return "spill/" + prefix + "/" }

// oneAtATime lets one caller at a time do something.
type oneAtATime struct{ busy chan struct{} }

// exclusively runs do when it is this caller's turn, without share.mu, which guards
// what skip looks at. It does nothing if skip says so by then, or ctx has ended.
func (h *share) exclusively(ctx context.Context, t *oneAtATime, skip func() bool, do func()) {
	h.mu.Lock()
	for !skip() {
		busy := t.busy
		if busy == nil {
			t.busy = make(chan struct{})
			h.mu.Unlock()
			do()
			h.mu.Lock()
			close(t.busy)
			t.busy = nil
			break
		}
		h.mu.Unlock()
		select {
		case <-busy:
			h.mu.Lock()
		case <-ctx.Done():
			return
		case <-h.stop.Done():
			return
		}
	}
	h.mu.Unlock()
}

// announce makes sure that every other process knows by the time it returns, or
// says that it could not. It has to do something rarely: an entry that is there is
// enough.
func (h *share) announce(ctx context.Context) bool {
	if h.entries == nil {
		return true
	}
	known := false
	fresh := func() bool {
		known = h.active && time.Since(h.putAt) < refreshAfter
		return known
	}
	h.exclusively(ctx, &h.puts, fresh, func() {
		h.mu.Lock()
		was := h.active
		h.mu.Unlock()
		if !h.put(ctx, true) || !was && store.Sleep(h.stop, h.watch) != nil {
			return
		}
		h.mu.Lock()
		h.active = true // not sooner: a caller that finds it does not wait
		h.mu.Unlock()
		known = true
	})
	return known
}

// put writes the entry.
func (h *share) put(ctx context.Context, active bool) bool {
	begun := time.Now()
	value := []byte(nil)
	if active {
		value = []byte("1")
	}
	_, err := h.entries.PutState(ctx, h.key, value, store.AnyVersion, h.owner)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.putAt = begun
	}
	return err == nil
}

// look reads the entries that have changed, unless somebody did a short while ago,
// and reports whether what is known is no older than that. One caller reads, others
// wait for it; while the fallback store does not answer they do not.
func (h *share) look(ctx context.Context, within time.Duration) (known bool) {
	enough := func() bool {
		known = time.Since(h.looked) < within
		return known || h.failing && (h.looks.busy != nil || time.Since(h.tried) < within)
	}
	h.exclusively(ctx, &h.looks, enough, func() { known = h.read(ctx) })
	return known
}

func (h *share) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, h.watch)
	defer cancel()
	begun := time.Now()
	h.mu.Lock()
	h.tried = begun
	after := h.version
	h.mu.Unlock()
	answered := false
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.failing = !answered
	}()
	changed, version := map[string]foreignEntry{}, after
	for e, err := range h.entries.ListState(ctx, h.prefix, after) {
		if err != nil {
			return false
		}
		version = max(version, e.Version)
		if e.Key != h.key {
			changed[e.Key] = foreignEntry{e.Version, len(e.Value) > 0, begun}
		}
	}
	h.mu.Lock()
	answered, h.looked, h.version = true, begun, version
	if h.foreign == nil {
		h.foreign = map[string]foreignEntry{}
	}
	maps.Copy(h.foreign, changed)
	on := false
	for _, e := range h.foreign {
		on = on || e.active
	}
	h.others.Store(on)
	h.mu.Unlock()
	return true
}

// see makes sure that this process knows of others what it must, or counts that it
// cannot.
func (s *Store) see(ctx context.Context) {
	if s.share.entries != nil && !s.share.look(ctx, s.share.watch) {
		s.blind.Add(1)
	}
}

func (h *share) isActive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// watchOthers looks at the entries until Close, and keeps this process's own.
func (s *Store) watchOthers() {
	for store.Sleep(s.stop, s.share.watch/2) == nil {
		s.share.look(s.stop, s.share.watch/4)
		s.keepEntry()
	}
	if s.latched.Load() == 0 && s.share.isActive() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.stop), time.Second)
		defer cancel()
		s.share.put(ctx, false)
	}
}

// keepEntry puts this process's entry anew while it has latches, empties it when it
// has none, and removes those of processes that died.
func (s *Store) keepEntry() {
	h := s.share
	if !h.isActive() && s.latched.Load() > 0 {
		h.announce(s.stop)
	}
	if h.isActive() {
		h.exclusively(s.stop, &h.puts, func() bool { return !h.active }, func() {
			h.mu.Lock()
			h.active = false // from here on callers that spill wait for the outcome
			age := time.Since(h.putAt)
			h.mu.Unlock()
			switch {
			case s.latched.Load() == 0:
				h.put(s.stop, false)
			case age < refreshAfter/2 || h.put(s.stop, true):
				h.mu.Lock()
				h.active = true
				h.mu.Unlock()
			}
		})
	}
	if h.others.Load() {
		s.removeDead()
	}
}

// removeDead empties the entries of processes that seem to have died, once no row
// is left.
func (s *Store) removeDead() {
	h := s.share
	var dead []string
	h.mu.Lock()
	for key, e := range h.foreign {
		if e.active && time.Since(e.seen) > deadAfter {
			dead = append(dead, key)
		}
	}
	h.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	figures, err := s.figures.Stats(s.stop)
	if err != nil {
		return
	}
	for i := range figures {
		if s.ours(figures[i].Name) && pending(&figures[i]) > 0 {
			return
		}
	}
	for _, key := range dead {
		h.mu.Lock()
		version := h.foreign[key].version
		h.mu.Unlock()
		// A living process has put it again meanwhile: then this is a conflict.
		_, _ = h.entries.PutState(s.stop, key, nil, version, h.owner)
	}
}
