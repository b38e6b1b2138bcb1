package statesync

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// AnyVersion puts or deletes a value regardless of its version.
const AnyVersion = store.AnyVersion

// Keys of the state of a store. A key has no space.
const (
	nowPrefix  = "sync/"
	pastPrefix = "syncpast/"
	keepPast   = 1024 // versions of a key
	headRoom   = 2048 // bytes of an entry that are not the value
	look       = time.Second / 2
	refresh    = 30 * time.Second
)

// Config is what a topic may be told.
type Config struct {
	Writer string // names this process in what it writes; empty: made up
	Schema string // names the form of the values
	// AllowRollback lets an older version replace a newer one: the store was restored, and its state counts.
	AllowRollback bool
	Every         time.Duration // between looks of a watch; 0: half a second
	Refresh       time.Duration // between full reads of a watch; 0, and at most: 30 seconds
	Logger        *slog.Logger  // nil: nothing is logged
}

// Topic is a set of values of one type. Make one with [New]. It is safe for concurrent use.
type Topic[T any] struct {
	Config
	counters
	entries store.Shared
	name    string
}

// Value is a version of a value.
type Value[T any] struct {
	Topic   string
	Key     string
	Value   T
	Version int64
	Writer  string
	Time    time.Time
	Schema  string
	Deleted bool // it is the removal of the value
	// Skipped is how many versions of the key a watch did not yield before this one.
	Skipped int64
}

// New returns a topic in the state of a store.
func New[T any](s store.Store, topic string, c Config) (*Topic[T], error) {
	if err := pawl.ValidTopic(topic); err != nil {
		return nil, err
	}
	entries, ok := store.As[store.Shared](s, store.CanState)
	if !ok {
		return nil, &store.Error{Op: "state " + topic, Code: store.ErrUnsupported}
	}
	if c.Every < 0 || c.Refresh < 0 {
		return nil, pawl.Invalid("config", "reads every %v, and all every %v; neither is negative", c.Every, c.Refresh)
	}
	c.Writer = cmp.Or(c.Writer, pawl.NewID())
	c.Every, c.Refresh = cmp.Or(c.Every, look), min(cmp.Or(c.Refresh, refresh), refresh)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Topic[T]{Config: c, counters: counters{bad: map[string]bool{}}, entries: entries, name: topic}, nil
}

// envelope is the value of an entry.
type envelope struct {
	N       int64           `json:"n"` // counts the versions of the key
	Schema  string          `json:"schema,omitempty"`
	Deleted bool            `json:"deleted,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
}

func (t *Topic[T]) key(key string) string            { return nowPrefix + t.name + "/" + key }
func (t *Topic[T]) past(key string) string           { return pastPrefix + t.name + "/" + key + " " }
func (t *Topic[T]) pastN(key string, n int64) string { return fmt.Sprintf("%s%012d", t.past(key), n) }

func admit(key string) error {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return pawl.Invalid("key", "is %q; it is text without spaces", key)
	}
	return nil
}

// decode reads an entry; n is 0 if it is no envelope at all.
func (t *Topic[T]) decode(e *store.Entry) (v Value[T], n int64, err error) {
	var env envelope
	if err = json.Unmarshal(e.Value, &env); err == nil && env.N < 1 {
		err = errors.New("it has no count of versions")
	}
	if err == nil && !env.Deleted {
		err = json.Unmarshal(env.Value, &v.Value)
	}
	v.Topic, v.Key, v.Schema, v.Deleted = t.name, strings.TrimPrefix(e.Key, t.key("")), env.Schema, env.Deleted
	v.Version, v.Writer, v.Time = e.Version, e.Writer, e.At
	if err != nil {
		err = &store.Error{Op: "read state " + t.name + "/" + v.Key, Code: store.ErrCorrupt, Err: err}
	}
	return v, env.N, err
}

// current is the newest value that can be decoded, the entry that is there, and its count; a version of 0 is none.
func (t *Topic[T]) current(ctx context.Context, key string) (v Value[T], e store.Entry, n int64, err error) {
	if err = admit(key); err != nil {
		return v, e, 0, err
	}
	e, err = t.entries.GetState(ctx, t.key(key))
	if errors.Is(err, store.ErrNotFound) {
		return v, store.Entry{}, 0, nil
	}
	if err != nil {
		return v, e, 0, err
	}
	v, n, bad := t.decode(&e)
	if bad == nil {
		return v, e, n, nil
	}
	t.poison(&e, bad)
	versions, next, err := t.versions(ctx, key, e.Version, 0)
	if err != nil {
		return v, e, 0, err
	}
	v = Value[T]{}
	if len(versions) > 0 {
		v = versions[len(versions)-1]
	}
	return v, e, cmp.Or(n, next), nil
}

// Get returns a value; [store.ErrNotFound] if there is none.
func (t *Topic[T]) Get(ctx context.Context, key string) (Value[T], error) {
	v, _, _, err := t.current(ctx, key)
	if err == nil && (v.Version == 0 || v.Deleted) {
		err = t.none(key)
	}
	return v, err
}

func (t *Topic[T]) none(key string) error {
	return &store.Error{Op: "state " + t.name + "/" + key, Code: store.ErrNotFound,
		Hint: "see what there is: `pawl state ls " + t.name + "`"}
}

// Put stores a value, durably when it returns, if the one there has that version: 0 is none, [AnyVersion] any.
// Otherwise it is [store.ErrConflict].
func (t *Topic[T]) Put(ctx context.Context, key string, value T, version int64) (Value[T], error) {
	text, err := json.Marshal(value)
	if err == nil && len(text) > store.MaxStateValue-headRoom {
		err = pawl.Invalid("value", "of %q has %d bytes; the limit is %d", key, len(text), store.MaxStateValue-headRoom)
	}
	if err != nil {
		return Value[T]{}, err
	}
	return t.write(ctx, key, envelope{Schema: t.Schema, Value: text}, version)
}

// Delete removes a value as Put replaces one; [store.ErrNotFound] if there is none.
func (t *Topic[T]) Delete(ctx context.Context, key string, version int64) (Value[T], error) {
	return t.write(ctx, key, envelope{Schema: t.Schema, Deleted: true}, version)
}

func (t *Topic[T]) write(ctx context.Context, key string, next envelope, version int64) (Value[T], error) {
	for {
		v, e, n, err := t.current(ctx, key)
		if err != nil {
			return v, err
		}
		have := v.Version
		if v.Deleted {
			have = 0
		}
		switch {
		case version < AnyVersion:
			return v, pawl.Invalid("version", "is %d; it is that of a value, or 0 for none", version)
		case version != AnyVersion && version != have:
			return v, &store.Error{Op: "state " + t.name + "/" + key, Code: store.ErrConflict,
				Err: fmt.Errorf("it is at version %d, not %d", have, version), Hint: "read it again"}
		case have == 0 && next.Deleted:
			return v, t.none(key)
		}
		if e.Version > 0 {
			if err := t.archive(ctx, key, n, &e); err != nil {
				return v, err
			}
		}
		next.N = n + 1
		text, err := json.Marshal(next)
		if err != nil {
			return v, err
		}
		put, err := t.entries.PutState(ctx, t.key(key), text, e.Version, t.Writer)
		if errors.Is(err, store.ErrConflict) {
			continue // somebody else was quicker
		}
		if err != nil {
			return v, err
		}
		_ = t.archive(ctx, key, next.N, &put) // else the next write does it
		v, _, err = t.decode(&put)
		return v, err
	}
}

// pastHead is the first line of an archived version; the entry follows as it was.
type pastHead struct {
	Version int64     `json:"version"`
	Writer  string    `json:"writer"`
	At      time.Time `json:"at"`
}

// archive keeps a version in the history: once it is written, in case that something else than a topic writes over it,
// and, if that failed, before it is replaced.
func (t *Topic[T]) archive(ctx context.Context, key string, n int64, e *store.Entry) error {
	head, err := json.Marshal(pastHead{e.Version, e.Writer, e.At})
	if err != nil {
		return err
	}
	text := slices.Concat(head, []byte("\n"), e.Value)
	if old, err := t.entries.GetState(ctx, t.pastN(key, n)); err == nil && bytes.Equal(old.Value, text) {
		return nil
	}
	_, err = t.entries.PutState(ctx, t.pastN(key, n), text, AnyVersion, t.Writer)
	if err == nil && n > keepPast {
		if err = t.entries.DeleteState(ctx, t.pastN(key, n-keepPast), AnyVersion); errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	}
	return err
}

// versions are the newest archived ones that can be decoded, up to most or all with 0, the oldest first; n is the
// count of one of all, or the next one if it is not there. Without that, a process that comes late would archive it
// as another one.
func (t *Topic[T]) versions(ctx context.Context, key string, of int64, most int) (all []Value[T], n int64,
	err error) {
	last := int64(0)
	for e, err := range t.entries.LatestState(ctx, t.past(key), 0) {
		if err != nil {
			return nil, 0, err
		}
		if most > 0 && len(all) == most {
			break
		}
		var head pastHead
		line, text, _ := bytes.Cut(e.Value, []byte("\n"))
		if json.Unmarshal(line, &head) != nil {
			continue
		}
		count, err := strconv.ParseInt(strings.TrimPrefix(e.Key, t.past(key)), 10, 64)
		if last = max(last, count); err == nil && head.Version == of {
			n = count
		}
		was := store.Entry{Key: t.key(key), Value: text, Version: head.Version, Writer: head.Writer, At: head.At}
		if v, _, err := t.decode(&was); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Value[T]) int { return cmp.Compare(a.Version, b.Version) })
	same := func(a, b Value[T]) bool { return a.Version == b.Version }
	return slices.CompactFunc(all, same), cmp.Or(n, last+1), nil
}

// History returns the versions of a value, the newest first: the last thousand at least.
func (t *Topic[T]) History(ctx context.Context, key string) ([]Value[T], error) {
	return t.Newest(ctx, key, 0)
}

// Newest is [Topic.History], but for what is older than the newest so many versions.
func (t *Topic[T]) Newest(ctx context.Context, key string, most int) ([]Value[T], error) {
	v, _, _, err := t.current(ctx, key) // before the rest: what replaces it meanwhile is no gap
	if err != nil {
		return nil, err
	}
	all, _, err := t.versions(ctx, key, 0, most)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(old Value[T]) bool { return old.Version >= v.Version })
	slices.Reverse(all)
	if v.Version == 0 {
		return nil, t.none(key)
	}
	return slices.Insert(all, 0, v), nil
}

// List returns the values whose key begins with prefix, by key.
func (t *Topic[T]) List(ctx context.Context, prefix string) ([]Value[T], error) {
	byKey := map[string]Value[T]{}
	for e, err := range t.entries.ListState(ctx, t.key(prefix), 0) {
		if err != nil {
			return nil, err
		}
		v, _, bad := t.decode(&e)
		if bad != nil { // the value before it counts
			if v, _, _, err = t.current(ctx, v.Key); err != nil {
				return nil, err
			}
		}
		delete(byKey, v.Key)
		if v.Version > 0 && !v.Deleted {
			byKey[v.Key] = v
		}
	}
	all := []Value[T]{}
	for _, v := range byKey {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Value[T]) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}
