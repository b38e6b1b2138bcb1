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
	"github.com/pawl-dev/pawl/store/internal/bound"
)

// registry knows the topics: settings, pauses, figures and bounds.
type registry struct {
	*core
	listener  *listener
	inspector *inspector
	meter     bound.Meter
}

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
			FROM unnest($1::text[]) n(name) WHERE n.name LIKE '%.` + outboxStage + `') x
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
	t := &topic{id: r.id(0), Topic: store.Topic{
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
func (s *core) orderClass() []byte { return int4Value(s.orderNumber()) }

func (s *core) orderNumber() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("pawl order " + s.cfg.Schema)) // a hash never fails
	return int32(h.Sum32())
}

// loadTopics reads all settings.
func (s *registry) loadTopics(ctx context.Context) error {
	var all []*topic
	err := s.call(ctx, s.front, read(selectTopics, collect(&all, readTopic)))
	if err == nil {
		s.topics.set(all)
	}
	return err
}

// known returns a topic, asking the server if need be; nil if it is not there.
func (s *registry) known(ctx context.Context, name string) (*topic, error) {
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
func (s *registry) ensure(ctx context.Context, places map[place]bool) error {
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
func (s *registry) unrecorded(places map[place]bool) []place {
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
func (s *registry) Topic(ctx context.Context, name string) (store.Topic, error) {
	if pawl.ValidTopic(name) != nil {
		return store.Topic{}, notFound("topic", name)
	}
	var found []*topic
	var hidden bool
	err := s.guard(ctx, "topic", func(ctx context.Context) error {
		return s.call(ctx, s.front, read(selectTopic, collect(&found, readTopic), textValue(name)),
			read(isHidden, set(&hidden, row.bool), textValue(name)))
	})
	if err == nil && (len(found) == 0 || hidden) {
		err = notFound("topic", name)
	}
	if err != nil {
		return store.Topic{}, err
	}
	return found[0].Topic, nil
}

// Declare implements [store.Topics].
func (s *registry) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if err := d.Validate(); err != nil {
		return store.Topic{}, err
	}
	err := s.guard(ctx, "declare", func(ctx context.Context) error {
		// The topic has its layout at once: it could not change any more once there are messages.
		if err := s.create(ctx, d.Name, d.Order != store.OrderNone, d.Tail != nil && *d.Tail); err != nil {
			return err
		}
		return s.call(ctx, s.front, do(bringBack, textValue(d.Name)))
	})
	if err != nil {
		return store.Topic{}, err
	}
	return s.change(ctx, "declare", d.Name, d.Apply)
}

// Alter implements [store.Topics].
func (s *registry) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
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
func (s *registry) change(ctx context.Context, op, name string,
	agree func(now store.Topic, empty bool) (store.Topic, error),
) (agreed store.Topic, err error) {
	err = s.guard(ctx, op, func(ctx context.Context) error {
		for limit := time.Now().Add(orderWait); ; {
			err := s.within(ctx, s.front, coldSettings, func(t *tx) (err error) {
				agreed, err = s.agree(ctx, t, name, agree)
				return err
			})
			if err == nil {
				return s.loadTopics(ctx)
			}
			if !errors.Is(err, errOrderBusy) {
				return err
			}
			if time.Now().After(limit) {
				return &store.Error{
					Op: op + " " + name, Code: store.ErrUnavailable, Err: errOrderBusy,
					Hint: "order changes only while nobody appends: end the transaction that does, and repeat the call",
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return agreed, err
}

func (s *registry) create(ctx context.Context, name string, ordered, tail bool) error {
	if s.topics.named(name) != nil {
		return nil
	}
	return s.call(ctx, s.front, insertsTopics(ordered, tail, name)...)
}

// insertsTopics makes topics that are not there, each with the band of priority 0, which pawl_send does not look for.
func insertsTopics(ordered, tail bool, names ...string) []step {
	args := [][]byte{textArray(names), int8Value(int64(store.DefaultDeadline)), int8Value(int64(store.DefaultAgeing)),
		boolValue(ordered), boolValue(tail)}
	return []step{do(insertOutboxTopics, args...), do(insertTopics, args...),
		do(insertBands, args[0], int2Array(make([]int16, len(names))))}
}

func (s *registry) agree(ctx context.Context, t *tx, name string,
	agree func(store.Topic, bool) (store.Topic, error)) (store.Topic, error) {
	found, err := query(ctx, t, readTopic, lockTopic, textValue(name))
	if err != nil {
		return store.Topic{}, err
	}
	if len(found) == 0 {
		return store.Topic{}, notFound("topic", name)
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

// emptyTopic locks out appends to the topic and reports whether it holds no
// message.
func (s *registry) emptyTopic(ctx context.Context, t *tx, id int32) (bool, error) {
	locked, busy := false, true
	err := t.run(ctx, read(lockOrder, set(&locked, row.bool), s.orderClass(), int4Value(id)),
		read(hasMessages, set(&busy, row.bool), int4Value(id)))
	if err == nil && !locked {
		err = errOrderBusy
	}
	return !busy, err
}
