package statesync

import (
	"context"
	"iter"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// counters count what a topic did with what it read.
type counters struct {
	stale, rollbacks, poisoned, skipped, refusals atomic.Int64

	mu      sync.Mutex
	bad     map[string]bool  // keys whose newest value cannot be decoded
	refused map[string]error // by key, why the reader does not take the value
}

// Figures are the counts of a topic in this process.
type Figures struct {
	Stale     int64 // older versions that were ignored
	Rollbacks int64 // older versions that replaced newer ones
	Poisoned  int64 // values that could not be decoded
	Skipped   int64 // versions that watches did not yield
	Refused   int64 // values that could be decoded, and that the reader did not take
	Ignored   int64 // keys whose newest value is poisoned or refused now
}

// Figures returns the counts.
func (c *counters) Figures() Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	ignored := maps.Clone(c.bad)
	for key := range c.refused {
		ignored[key] = true
	}
	return Figures{c.stale.Load(), c.rollbacks.Load(), c.poisoned.Load(), c.skipped.Load(), c.refusals.Load(),
		int64(len(ignored))}
}

// Refused tells which values the reader of a watch does not take now: all of them, by key, with the reason. New keys
// are counted and logged.
func (t *Topic[T]) Refused(why map[string]error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, err := range why {
		if t.refused[key] == nil {
			t.refusals.Add(1)
			t.Logger.Warn("a value of the state is not taken", "state_topic", t.name, "key", key, "error", err)
		}
	}
	t.refused = maps.Clone(why)
}

func (c *counters) decoded(key string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.bad, key); !ok {
		c.bad[key] = true
	}
}

func (t *Topic[T]) poison(e *store.Entry, err error) {
	t.poisoned.Add(1)
	t.decoded(strings.TrimPrefix(e.Key, t.key("")), false)
	t.Logger.Warn("a value of the state is ignored: it cannot be decoded", "state_topic", t.name, "version", e.Version,
		"writer", e.Writer, "error", err)
}

// Watch yields the values whose key begins with prefix as they are now, then every change, until ctx ends or the caller
// stops. A store that fails is asked again.
func (t *Topic[T]) Watch(ctx context.Context, prefix string) iter.Seq[Value[T]] {
	return func(yield func(Value[T]) bool) {
		v := view[T]{topic: t, known: map[string]seen{}}
		for ctx.Err() == nil {
			more, err := v.read(ctx, prefix, yield)
			if !more {
				return
			}
			if err != nil && ctx.Err() == nil {
				t.Logger.Warn("the state cannot be read, and is read again", "state_topic", t.name, "error", err)
			}
			if store.Sleep(ctx, t.Every) != nil {
				return
			}
		}
	}
}

// view is what a watch has yielded.
type view[T any] struct {
	topic *Topic[T]
	known map[string]seen
	after int64     // the newest version of all that was read
	full  time.Time // when everything was read; zero: not yet
}

// seen is what a view knows of a key.
type seen struct {
	version int64 // yielded, or found to be poisoned
	n       int64
}

// read yields what changed: since the last version, or, when it is time, among everything.
func (v *view[T]) read(ctx context.Context, prefix string, yield func(Value[T]) bool) (more bool, err error) {
	all := v.full.IsZero() || time.Since(v.full) >= v.topic.Refresh
	began, after, newest := time.Now(), v.after, int64(0)
	if all {
		after = 0
	}
	for e, err := range v.topic.entries.ListState(ctx, v.topic.key(prefix), after) {
		if err != nil {
			return true, err
		}
		newest = max(newest, e.Version)
		_, known := v.known[e.Key]
		value, ok := v.take(&e)
		if !ok && !known && value.Version > 0 { // poisoned from the start: the value before it stays
			if value, _, _, err = v.topic.current(ctx, value.Key); err != nil {
				return true, err
			}
			ok = value.Version > 0 && !value.Deleted
		}
		if ok && !yield(value) {
			return false, nil
		}
	}
	switch {
	case all:
		v.full, v.after = began, newest // a store that went back has lower versions from now on
	default:
		v.after = max(v.after, newest)
	}
	return true, nil
}

// take reports whether an entry that was read is to be yielded. Entries may come in any order, and again.
func (v *view[T]) take(e *store.Entry) (value Value[T], ok bool) {
	was, known := v.known[e.Key]
	if known && e.Version == was.version {
		return value, false
	}
	older := known && e.Version < was.version
	if older && !v.topic.AllowRollback {
		v.topic.stale.Add(1)
		return value, false
	}
	value, n, err := v.topic.decode(e)
	if err != nil {
		v.topic.poison(e, err)
		v.known[e.Key] = seen{e.Version, max(n, was.n)}
		return value, false
	}
	if older {
		v.topic.rollbacks.Add(1)
		v.topic.Logger.Warn("an older version of the state replaces a newer one", "state_topic", v.topic.name,
			"version", e.Version, "replaced", was.version)
	} else if known {
		value.Skipped = max(0, n-was.n-1)
		v.topic.skipped.Add(value.Skipped)
	}
	v.topic.decoded(value.Key, true)
	v.known[e.Key] = seen{e.Version, n}
	return value, known || !value.Deleted // a removal from before the watch is nothing that is there
}
