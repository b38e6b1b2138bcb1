package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// side is the state that processes share.
type side struct {
	*core
	registry *registry
}

// The state of the store is a topic with a single partition, read from its start. A record of
// it is a request (a wish) to put or delete an entry if it has a certain version. Every reader
// of the log decides about a wish in the same way, by the records before it; so the log acts as
// the lock, and brokers that cannot compare are enough. The version of an entry is the offset
// of the record that put it, plus one.
//
// The topic must not be compacted: the last wish about a key may be one that was refused. It is
// shortened by snapshots: see [ledger].
type state struct {
	s    *Store
	tail *tail

	// Guarded by the tail's mu.
	ledger
	watchers   []func(string) // called with the key of what has changed
	shortening bool           // or about to be
	catching   bool           // up with what is behind missing records

	room  int           // by how much the log grows between snapshots, at least
	delay time.Duration // before one, at most

	making  sync.Mutex
	heeding sync.Mutex
	once    sync.Once
}

func (st *state) init(s *Store) {
	st.s, st.ledger, st.room, st.delay = s, newLedger(), stateRoom, stateDelay
	st.tail = newTail(s, s.wire(s.cfg.StateTopic), st.apply, st.clear)
	st.watchers = append(st.watchers, s.watchState)
}

func (st *state) apply(r *kgo.Record) {
	st.tell(st.read(r))
	if st.gap != nil && !st.catching {
		st.catching = st.s.background(st.catchUp)
	}
	st.shortenSoon()
}

// clear forgets all entries: their topic is gone.
func (st *state) clear() {
	keys := slices.Collect(maps.Keys(st.entries))
	st.reset()
	st.tell(keys)
}

// tell notifies of entries that have changed.
func (st *state) tell(keys []string) {
	for _, key := range keys {
		for _, f := range st.watchers {
			f(key)
		}
	}
}

// follow brings the entries up to the end of the log as it is now.
func (st *state) follow(ctx context.Context) error {
	for {
		if err := st.tail.follow(ctx); err != nil || !st.lost() {
			return err
		}
		// The log is cut at the base of a snapshot that is complete before. So if it begins at
		// the same place before and after its end is asked for, and read up to there, every
		// snapshot at which it was cut has been read.
		before, err := st.start(ctx)
		if err == nil {
			err = st.tail.follow(ctx)
		}
		after, bad := st.start(ctx)
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		if before == after {
			st.giveUp(before)
			return nil
		}
	}
}

func (st *state) lost() bool {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	return st.gap != nil
}

// start is where the log begins.
func (st *state) start(ctx context.Context) (int64, error) {
	starts, err := st.s.offsetsOf(ctx, "read "+st.tail.topic, st.tail.topic, st.s.admin.ListStartOffsets)
	return starts[0], err
}

func (st *state) giveUp(start int64) {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	if st.gap == nil {
		return
	}
	if start > st.gap.known {
		st.s.cfg.Logger.Error("the beginning of the state is missing, and there is no snapshot of it: settings, "+
			"pauses and operations from before are lost", "topic", st.tail.topic, "offset", start)
	}
	st.tell(st.ledger.giveUp(start))
}

// catchUp goes on until no records are missing.
func (st *state) catchUp() {
	for catching := true; catching; {
		err := st.follow(st.s.ctx)
		st.tail.mu.Lock()
		catching = st.gap != nil && st.s.ctx.Err() == nil
		st.catching = catching
		st.tail.mu.Unlock()
		if catching && err != nil {
			_ = store.Sleep(st.s.ctx, lookAgain)
		}
	}
}

// watch follows the state from now on, even if the topic does not exist yet.
func (st *state) watch() {
	st.once.Do(func() { st.s.background(st.watchLoop) })
}

func (st *state) watchLoop() {
	for !st.tail.started() && store.Sleep(st.s.ctx, lookAgain) == nil {
		_ = st.tail.follow(st.s.ctx) // again in a second
	}
}

// ensure makes the topic of the state, if it is not there.
func (st *state) ensure(ctx context.Context) error {
	st.making.Lock()
	defer st.making.Unlock()
	missing, err := st.s.topics.missing(ctx, slices.Values([]string{st.tail.topic}))
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := st.s.topics.mayCreate(st.tail.topic); err != nil {
		return err
	}
	return st.make(ctx)
}

// say writes a wish and returns its outcome.
func (st *state) say(ctx context.Context, op, key string, value []byte, version int64, writer string) (wish, error) {
	if err := st.ensure(ctx); err != nil {
		return wish{}, err
	}
	nonce := pawl.NewID()
	r := st.record(op, key, value, nonce, store.Text(writer), map[string]int64{headerWant: version})
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
	if err := st.follow(ctx); err != nil {
		return wish{}, err
	}
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	w := st.outcomes[nonce]
	if !w.done {
		return w, unavailable(op+" state "+key, errors.New("the topic was made again, or shortened, before this was read"))
	}
	return w, nil
}

// GetState implements [store.Shared].
func (s *side) GetState(ctx context.Context, key string) (store.Entry, error) {
	if err := backend.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	if err := s.upToDate(ctx, "get state"); err != nil {
		return store.Entry{}, err
	}
	e, ok := s.state.get(key)
	if !ok {
		return store.Entry{}, &store.Error{Op: "state " + key, Code: store.ErrNotFound}
	}
	return e, nil
}

// upToDate brings the state up to its end, or returns why op cannot be served.
func (s *side) upToDate(ctx context.Context, op string) error {
	if err := s.usable(ctx, op); err != nil {
		return err
	}
	return s.state.follow(ctx)
}

// get returns an entry as it was last read.
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

// PutState implements [store.Shared].
func (s *side) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if err := backend.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	if err := s.usable(ctx, "put state"); err != nil {
		return store.Entry{}, err
	}
	w, err := s.state.say(ctx, opPut, key, value, version, writer)
	if err == nil {
		err = backend.PutConflict("put state", key, w.have, version)
	}
	if err != nil {
		return store.Entry{}, err
	}
	return ownEntry(w.entry), nil
}

// DeleteState implements [store.Shared].
func (s *side) DeleteState(ctx context.Context, key string, version int64) error {
	if err := backend.AdmitDelete(key, version); err != nil {
		return err
	}
	if err := s.usable(ctx, "delete state"); err != nil {
		return err
	}
	w, err := s.state.say(ctx, opDelete, key, nil, version, "")
	switch {
	case err != nil:
		return err
	case w.have == 0:
		return &store.Error{Op: "delete state " + key, Code: store.ErrNotFound}
	default:
		return backend.PutConflict("delete state", key, w.have, version)
	}
}

// ListState implements [store.Shared]. It yields what there is when it begins.
func (s *side) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return s.listState(ctx, prefix, func(e store.Entry) bool { return e.Version > after }, 1)
}

// LatestState implements [store.Shared]. It yields what there is when it begins.
func (s *side) LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[store.Entry, error] {
	return s.listState(ctx, prefix, func(e store.Entry) bool { return before == 0 || e.Version < before }, -1)
}

// listState yields the entries with the prefix that are in it, by version: 1 up, -1 down.
func (s *side) listState(ctx context.Context, prefix string, in func(store.Entry) bool,
	order int) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.upToDate(ctx, "list state"); err != nil {
			yield(store.Entry{}, err)
			return
		}
		for _, e := range s.state.list(prefix, in, order) {
			if !yield(ownEntry(e), nil) {
				return
			}
		}
	}
}

func (st *state) list(prefix string, in func(store.Entry) bool, order int) []store.Entry {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	var found []store.Entry
	for key, e := range st.entries {
		if strings.HasPrefix(key, prefix) && in(e) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b store.Entry) int { return order * cmp.Compare(a.Version, b.Version) })
	return found
}

// putJSON puts a value of plain fields into the state.
func (s *side) putJSON(ctx context.Context, key string, value any, version int64, writer string) error {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = s.PutState(ctx, key, text, version, writer)
	}
	return err
}

// readJSON decodes a value of the state, as it was last read, into value; false if there
// is none, or none that can be decoded.
func (st *state) readJSON(key string, value any) (version int64, ok bool) {
	e, _ := st.get(key)
	return e.Version, json.Unmarshal(e.Value, value) == nil
}

// Clock implements [store.Shared]: the store's clock is the process's.
func (s *side) Clock(ctx context.Context) (time.Time, error) {
	return s.cfg.Now(), s.usable(ctx, "clock")
}
