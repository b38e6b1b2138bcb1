package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The state of the store is what a topic with a single partition says, read from
// its start. A record of it is a wish: to put or delete an entry if it has a
// certain version. Everybody who reads the log decides about a wish in the same
// way, by what stands before it; so the log is the lock, and a broker that
// compares nothing is enough. The version of an entry is the offset of the record
// that put it, and one.
//
// The topic must keep its records for ever, and must not be compacted: the last
// wish about a key may be one that was not granted.
type state struct {
	s    *Store
	tail *tail

	// Guarded by the tail's mu.
	entries  map[string]store.Entry
	outcomes map[string]wish // of wishes that somebody here waits for, by nonce
	watchers []func(string)  // called with the key of what has changed

	making  sync.Mutex
	heeding sync.Mutex
	once    sync.Once
}

// wish is what became of a wish.
type wish struct {
	entry store.Entry
	have  int64 // the version that was there
	done  bool
	ok    bool
}

// Headers of a wish.
const (
	headerOp     = "op" // put or delete
	headerWant   = "want"
	headerWriter = "writer"
	headerNonce  = "nonce"
)

func (st *state) init(s *Store) {
	st.s, st.entries, st.outcomes = s, map[string]store.Entry{}, map[string]wish{}
	st.tail = newTail(s, s.wire(s.cfg.StateTopic), st.apply, st.clear)
	st.watchers = append(st.watchers, s.watchState)
}

// apply decides about a wish.
func (st *state) apply(r *kgo.Record) {
	key := string(r.Key)
	op, _ := header(r, headerOp)
	want, err := strconv.ParseInt(text(r, headerWant), 10, 64)
	if err != nil || store.AdmitState(key) != nil || op != "put" && op != "delete" {
		return // not one of ours
	}
	have, nonce := st.entries[key], text(r, headerNonce)
	w := wish{have: have.Version, done: true, ok: want == store.AnyVersion || want == have.Version}
	if op == "delete" && have.Version == 0 {
		w.ok = false
	}
	switch {
	case !w.ok:
	case op == "put":
		w.entry = store.Entry{Key: key, Value: r.Value, Version: r.Offset + 1, Writer: text(r, headerWriter),
			At: r.Timestamp}
		if w.entry.Value == nil {
			w.entry.Value = []byte{}
		}
		st.entries[key] = w.entry
	default:
		delete(st.entries, key)
	}
	if _, waited := st.outcomes[nonce]; waited {
		st.outcomes[nonce] = w
	}
	if w.ok {
		for _, f := range st.watchers {
			f(key)
		}
	}
}

// clear forgets all entries: their topic is gone.
func (st *state) clear() {
	keys := slices.Collect(maps.Keys(st.entries))
	clear(st.entries)
	for _, key := range keys {
		for _, f := range st.watchers {
			f(key)
		}
	}
}

func text(r *kgo.Record, name string) string {
	s, _ := header(r, name)
	return s
}

// watch follows the state from now on, also when nobody has put anything yet.
func (st *state) watch() {
	st.once.Do(func() { st.s.background(st.watchLoop) })
}

func (st *state) watchLoop() {
	for !st.tail.started() {
		select {
		case <-time.After(lookAgain):
		case <-st.s.ctx.Done():
			return
		}
		_ = st.tail.follow(st.s.ctx) // again in a second
	}
}

// ensure makes the topic of the state, if it is not there.
func (st *state) ensure(ctx context.Context) error {
	st.making.Lock()
	defer st.making.Unlock()
	if _, ok := st.s.topics.known(st.tail.topic); ok {
		return nil
	}
	found, err := st.s.topics.look(ctx, st.tail.topic)
	if err != nil {
		return err
	}
	if _, ok := found[st.tail.topic]; ok {
		return nil
	}
	if err := st.s.topics.mayCreate(st.tail.topic); err != nil {
		return err
	}
	return st.make(ctx)
}

// say writes a wish and returns what became of it.
func (st *state) say(ctx context.Context, op, key string, value []byte, version int64, writer string) (wish, error) {
	if err := st.ensure(ctx); err != nil {
		return wish{}, err
	}
	nonce := pawl.NewID()
	r := &kgo.Record{Topic: st.tail.topic, Key: []byte(key), Value: value, Timestamp: st.s.cfg.Now(),
		Headers: []kgo.RecordHeader{
			{Key: headerOp, Value: []byte(op)}, {Key: headerWant, Value: strconv.AppendInt(nil, version, 10)},
			{Key: headerWriter, Value: []byte(store.Text(writer))}, {Key: headerNonce, Value: []byte(nonce)},
		}}
	st.tail.mu.Lock()
	st.outcomes[nonce] = wish{}
	st.tail.mu.Unlock()
	defer func() {
		st.tail.mu.Lock()
		delete(st.outcomes, nonce)
		st.tail.mu.Unlock()
	}()
	if err := st.s.produce(ctx, []*kgo.Record{r})[0]; err != nil {
		return wish{}, unavailable(op+" state "+key, err)
	}
	if err := st.tail.follow(ctx); err != nil {
		return wish{}, err
	}
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	w := st.outcomes[nonce]
	if !w.done {
		return w, unavailable(op+" state "+key, errors.New("the topic was made again meanwhile"))
	}
	return w, nil
}

// GetState implements [store.Entries].
func (s *Store) GetState(ctx context.Context, key string) (store.Entry, error) {
	if err := store.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	if err := s.usable(ctx, "get state"); err != nil {
		return store.Entry{}, err
	}
	if err := s.state.tail.follow(ctx); err != nil {
		return store.Entry{}, err
	}
	e, ok := s.state.get(key)
	if !ok {
		return store.Entry{}, &store.Error{Op: "state " + key, Code: store.ErrNotFound}
	}
	return e, nil
}

// get returns an entry as it was last heard of.
func (st *state) get(key string) (store.Entry, bool) {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	e, ok := st.entries[key]
	return ownEntry(e), ok
}

func ownEntry(e store.Entry) store.Entry {
	e.Value = bytes.Clone(e.Value)
	return e
}

// PutState implements [store.Entries].
func (s *Store) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if err := store.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	if err := s.usable(ctx, "put state"); err != nil {
		return store.Entry{}, err
	}
	w, err := s.state.say(ctx, "put", key, value, version, writer)
	if err == nil {
		err = store.PutConflict("put state", key, w.have, version)
	}
	if err != nil {
		return store.Entry{}, err
	}
	return ownEntry(w.entry), nil
}

// DeleteState implements [store.Entries].
func (s *Store) DeleteState(ctx context.Context, key string, version int64) error {
	if err := store.AdmitDelete(key, version); err != nil {
		return err
	}
	if err := s.usable(ctx, "delete state"); err != nil {
		return err
	}
	w, err := s.state.say(ctx, "delete", key, nil, version, "")
	switch {
	case err != nil:
		return err
	case w.have == 0:
		return &store.Error{Op: "delete state " + key, Code: store.ErrNotFound}
	default:
		return store.PutConflict("delete state", key, w.have, version)
	}
}

// ListState implements [store.Entries]. It yields what there is when it begins.
func (s *Store) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		err := s.usable(ctx, "list state")
		if err == nil {
			err = s.state.tail.follow(ctx)
		}
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		for _, e := range s.state.list(prefix, after) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (st *state) list(prefix string, after int64) []store.Entry {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	var found []store.Entry
	for key, e := range st.entries {
		if strings.HasPrefix(key, prefix) && e.Version > after {
			found = append(found, ownEntry(e))
		}
	}
	slices.SortFunc(found, func(a, b store.Entry) int { return cmp.Compare(a.Version, b.Version) })
	return found
}

// Clock implements [store.Entries]: the store's clock is the process's.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	return s.cfg.Now(), s.usable(ctx, "clock")
}
