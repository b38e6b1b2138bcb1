package postgres

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// topic is a topic's number and its settings as last seen.
type topic struct {
	store.Topic
	id int32
}

// topicCache remembers topics. Their numbers never change; what depends on the
// settings at the very moment reads them in its own statement.
type topicCache struct {
	mu     sync.RWMutex
	byName map[string]*topic
	byID   map[int32]*topic
	bands  map[int64]bool // bands that are on record
	used   atomic.Bool    // since they were last read
}

func (c *topicCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName, c.byID, c.bands = nil, nil, nil
}

func (c *topicCache) named(name string) *topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byName[name]
}

func (c *topicCache) numbered(id int32) *topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id]
}

func (c *topicCache) set(all []*topic) {
	byName, byID := make(map[string]*topic, len(all)), make(map[int32]*topic, len(all))
	for _, t := range all {
		byName[t.Name], byID[t.id] = t, t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName, c.byID = byName, byID
}

// The bits of a band.
const (
	bandSpan   = 512
	again      = 128 // given back, retried, late
	generation = 384 // the mask of the generation; all of it: a suspect
)

func bandOf(topic int32, prio int) int64 { return int64(topic)*bandSpan + int64(prio) }

const (
	topicColumns = `id, name, ordered, deadline, ageing, park, retain, version, tail, max_waiting`
	selectTopics = `SELECT ` + topicColumns + ` FROM @topic`
	selectTopic  = `SELECT ` + topicColumns + ` FROM @topic WHERE name = $1::text`
	lockTopic    = selectTopic + ` FOR NO KEY UPDATE`
	insertTopics = `INSERT INTO @topic (name, ordered, deadline, ageing, park, retain, version, tail)
		SELECT x.name, $4::bool, $2::bigint, $3::bigint, false, 0, 0, $5::bool FROM unnest($1::text[]) x(name)
		WHERE NOT EXISTS (SELECT FROM @topic t WHERE t.name = x.name) ON CONFLICT (name) DO NOTHING`
	// insertOutboxTopics makes those of projections, with the numbers that outbox.sql gives them: a change whose
	// transaction could not see the topic has that number.
	insertOutboxTopics = `INSERT INTO @topic (id, name, ordered, deadline, ageing, park, retain, version, tail)
		OVERRIDING SYSTEM VALUE SELECT x.id, x.name, $4::bool, $2::bigint, $3::bigint, false, 0, 0, $5::bool FROM (
			SELECT n.name, 1073741824 + (('x' || left(md5(n.name), 8))::bit(32)::int & 1073741823) AS id
			FROM unnest($1::text[]) n(name) WHERE n.name LIKE '%.` + store.OutboxStage + `') x
		WHERE NOT EXISTS (SELECT FROM @topic t WHERE t.name = x.name OR t.id = x.id) ON CONFLICT DO NOTHING`
	insertBands = `INSERT INTO @band (topic, prio) SELECT t.id, x.prio FROM unnest($1::text[], $2::smallint[]) x(name, prio)
		JOIN @topic t ON t.name = x.name ON CONFLICT DO NOTHING`
	updateTopic = `UPDATE @topic SET ordered = $2::bool, deadline = $3::bigint, ageing = $4::bigint, park = $5::bool,
		retain = $6::bigint, version = $7::bigint, tail = $8::bool, max_waiting = $9::bigint WHERE id = $1::int`
	hasMessages = `SELECT EXISTS (SELECT FROM @msg WHERE topic = $1::int)`
	// Appends to a lane hold this lock shared, so that order cannot change between the
	// choice of a lane and the commit.
	shareOrder = `SELECT pg_advisory_xact_lock_shared($1::int, t) FROM unnest($2::int[]) t`
	lockOrder  = `SELECT pg_try_advisory_xact_lock($1::int, $2::int)`
)

func readTopic(r row) (*topic, error) {
	t := &topic{id: int32(r.int4(0)), Topic: store.Topic{
		Name: r.text(1), Order: store.OrderNone, Deadline: time.Duration(r.int8(3)), Ageing: time.Duration(r.int8(4)),
		Park: r.bool(5), Tail: r.bool(8), Retain: time.Duration(r.int8(6)), Version: r.int8(7),
		MaxWaiting: r.int8(9),
	}}
	if r.bool(2) {
		t.Order = store.OrderKey
	}
	return t, nil
}

// orderClass is the first half of the key of order locks.
func (s *Store) orderClass() []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte("pawl order " + s.cfg.Schema)) // a hash never fails
	return int4Value(int32(h.Sum32()))
}

// loadTopics reads all settings.
func (s *Store) loadTopics(ctx context.Context) error {
	var all []*topic
	err := s.call(ctx, s.front, read(selectTopics, func(r row) error {
		t, err := readTopic(r)
		all = append(all, t)
		return err
	}))
	if err == nil {
		s.topics.set(all)
	}
	return err
}

// known returns a topic, asking the server if need be; nil if it is not there.
func (s *Store) known(ctx context.Context, name string) (*topic, error) {
	if t := s.topics.named(name); t != nil || pawl.ValidTopic(name) != nil {
		return t, nil
	}
	if err := s.loadTopics(ctx); err != nil {
		return nil, err
	}
	return s.topics.named(name), nil
}

// place is a topic with a priority.
type place struct {
	topic string
	prio  int
}

// ensure makes sure that topics and bands are on record, in a transaction of its own,
// so that no caller waits for another's transaction.
func (s *Store) ensure(ctx context.Context, places map[place]bool) error {
	missing := s.unrecorded(places)
	if len(missing) == 0 {
		return nil
	}
	var names []string
	var prios []int16
	for _, p := range missing {
		names, prios = append(names, p.topic), append(prios, int16(p.prio))
	}
	unique := slices.Compact(slices.Clone(names))
	err := s.call(ctx, s.front, append(insertsTopics(true, false, unique...),
		do(insertBands, textArray(names), int2Array(prios)))...)
	if err != nil {
		return err
	}
	if err := s.loadTopics(ctx); err != nil {
		return err
	}
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	if s.topics.bands == nil {
		s.topics.bands = map[int64]bool{}
	}
	for _, p := range missing {
		t := s.topics.byName[p.topic]
		if t == nil {
			return unexpected("topic " + p.topic + " was not created")
		}
		s.topics.bands[bandOf(t.id, p.prio)] = true
	}
	return nil
}

// unrecorded returns those places that are not known to be on record, sorted.
func (s *Store) unrecorded(places map[place]bool) []place {
	s.topics.mu.RLock()
	defer s.topics.mu.RUnlock()
	var missing []place
	for p := range maps.Keys(places) {
		if t := s.topics.byName[p.topic]; t == nil || !s.topics.bands[bandOf(t.id, p.prio)] {
			missing = append(missing, p)
		}
	}
	slices.SortFunc(missing, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.prio, b.prio))
	})
	return missing
}

// Topic implements [store.Topics].
func (s *Store) Topic(ctx context.Context, name string) (store.Topic, error) {
	ctx, done, err := s.enter(ctx, "topic")
	if err != nil {
		return store.Topic{}, err
	}
	defer done()
	if pawl.ValidTopic(name) != nil {
		return store.Topic{}, noTopic(name)
	}
	var found *topic
	err = s.call(ctx, s.front, read(selectTopic, func(r row) (err error) {
		found, err = readTopic(r)
		return err
	}, textValue(name)))
	switch {
	case err != nil:
		return store.Topic{}, s.fail("topic", err)
	case found == nil:
		return store.Topic{}, noTopic(name)
	}
	if hidden, err := s.hidden(ctx, name); err != nil || hidden {
		return store.Topic{}, cmp.Or(s.fail("topic", err), noTopic(name))
	}
	return found.Topic, nil
}

func noTopic(name string) error { return &store.Error{Op: "topic " + name, Code: store.ErrNotFound} }

// Declare implements [store.Topics].
func (s *Store) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if err := d.Validate(); err != nil {
		return store.Topic{}, err
	}
	entered, done, err := s.enter(ctx, "declare")
	if err != nil {
		return store.Topic{}, err
	}
	defer done()
	// It is there with its layout at once: messages that came before the rest is stated would keep it at another one.
	if err := s.create(entered, d.Name, d.Order != store.OrderNone, d.Tail != nil && *d.Tail); err != nil {
		return store.Topic{}, s.fail("declare", err)
	}
	if err := s.call(entered, s.front, do(bringBack, textValue(d.Name))); err != nil {
		return store.Topic{}, s.fail("declare", err)
	}
	return s.change(ctx, "declare", d.Name, d.Apply)
}

// Alter implements [store.Topics].
func (s *Store) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
	if err := to.Validate(); err != nil {
		return store.Topic{}, err
	}
	if _, err := s.Topic(ctx, to.Name); err != nil {
		return store.Topic{}, err
	}
	return s.change(ctx, "alter", to.Name, to.Replace)
}

// orderWait is how long a change of order waits for appends under way.
const orderWait = 2 * time.Second

var errOrderBusy = errors.New("appends to the topic are under way")

// change changes settings to what agree makes of them. Appends that are under way,
// perhaps in a caller's transaction, are waited for when order changes; they do not
// wait for the change.
func (s *Store) change(ctx context.Context, op, name string,
	agree func(now store.Topic, empty bool) (store.Topic, error),
) (agreed store.Topic, err error) {
	ctx, done, err := s.enter(ctx, op)
	if err != nil {
		return store.Topic{}, err
	}
	defer done()
	for limit := time.Now().Add(orderWait); ; {
		err = s.within(ctx, s.front, coldSettings(), func(t *tx) (err error) {
			agreed, err = s.agree(ctx, t, name, agree)
			return err
		})
		if !errors.Is(err, errOrderBusy) || time.Now().After(limit) {
			break
		}
		select {
		case <-ctx.Done():
			return store.Topic{}, s.fail(op, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if errors.Is(err, errOrderBusy) {
		return store.Topic{}, &store.Error{
			Op: op + " " + name, Code: store.ErrUnavailable, Err: errOrderBusy,
			Hint: "order changes only while nobody appends: end the transaction that does, and repeat the call",
		}
	}
	if err != nil {
		return store.Topic{}, s.fail(op, err)
	}
	if err := s.loadTopics(ctx); err != nil {
		return agreed, s.fail(op, err)
	}
	return agreed, nil
}

func (s *Store) create(ctx context.Context, name string, ordered, tail bool) error {
	if s.topics.named(name) != nil {
		return nil
	}
	return s.call(ctx, s.front, insertsTopics(ordered, tail, name)...)
}

// insertsTopics makes topics that are not there.
func insertsTopics(ordered, tail bool, names ...string) []step {
	args := [][]byte{textArray(names), int8Value(int64(store.DefaultDeadline)), int8Value(int64(store.DefaultAgeing)),
		boolValue(ordered), boolValue(tail)}
	return []step{do(insertOutboxTopics, args...), do(insertTopics, args...)}
}

func (s *Store) agree(ctx context.Context, t *tx, name string,
	agree func(store.Topic, bool) (store.Topic, error)) (store.Topic, error) {
	found, err := query(ctx, t, readTopic, lockTopic, textValue(name))
	if err != nil {
		return store.Topic{}, err
	}
	if len(found) == 0 {
		return store.Topic{}, noTopic(name)
	}
	now := found[0]
	next, err := agree(now.Topic, true)
	if err != nil {
		return store.Topic{}, err
	}
	if next.Order != now.Order || next.Tail != now.Tail {
		empty, err := s.emptyTopic(ctx, t, now.id)
		if err != nil {
			return store.Topic{}, err
		}
		if next, err = agree(now.Topic, empty); err != nil {
			return store.Topic{}, err
		}
	}
	if next == now.Topic {
		return next, nil
	}
	return next, t.run(ctx, do(updateTopic, int4Value(now.id), boolValue(next.Order == store.OrderKey),
		int8Value(int64(next.Deadline)),
		int8Value(int64(next.Ageing)), boolValue(next.Park), int8Value(int64(next.Retain)), int8Value(next.Version),
		boolValue(next.Tail), int8Value(next.MaxWaiting)))
}

// emptyTopic locks out appends to the topic and tells whether it holds no
// message.
func (s *Store) emptyTopic(ctx context.Context, t *tx, id int32) (bool, error) {
	locked, busy := false, true
	err := t.run(ctx, read(lockOrder, yesOrNo(&locked), s.orderClass(), int4Value(id)))
	if err != nil {
		return false, err
	}
	if !locked {
		return false, errOrderBusy
	}
	err = t.run(ctx, read(hasMessages, yesOrNo(&busy), int4Value(id)))
	return !busy, err
}
