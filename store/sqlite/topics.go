package sqlite

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// registry has the topics: settings, pauses, figures and bounds.
type registry struct{ *core }

// topic is the settings of a topic, its number and its pause.
type topic struct {
	store.Topic
	number int64
	pause  *store.Pause
}

func (t *topic) paused(now int64) bool {
	return t.pause != nil && (t.pause.Until.IsZero() || t.pause.Until.UnixMicro() > now)
}

// keyed reports whether a message with that key has a lane with others.
func (t *topic) keyed(key []byte) bool { return key != nil && t.Order == store.OrderKey }

// topicCache is all topics, as of a version of the settings.
type topicCache struct {
	settings int64 // 0: nothing is known
	byName   map[string]*topic
	byNumber map[int64]*topic
}

func (c *topicCache) forget() { c.settings = 0 }

const selectTopics = `SELECT topic, name, lanes, deadline, ageing, park, retain, version,
	paused_since, paused_until, paused_by, paused_reason, tail, max_waiting FROM pawl_topic`

// load reads the topics unless they are known.
func (c *topicCache) load(db session, settings int64) error {
	if c.settings == settings {
		return nil
	}
	c.byName, c.byNumber = map[string]*topic{}, map[int64]*topic{}
	err := db.query(selectTopics, func(r row) error {
		t := &topic{number: r.int(0), Topic: store.Topic{
			Name: r.text(1), Order: store.Order(r.text(2)), Deadline: time.Duration(r.int(3)),
			Ageing: time.Duration(r.int(4)),
			Park:   r.int(5) != 0, Tail: r.int(12) != 0, Retain: time.Duration(r.int(6)), Version: r.int(7),
			MaxWaiting: r.int(13),
		}}
		if r[8] != nil {
			t.pause = &store.Pause{Since: moment(r.int(8)), Until: moment(r.int(9)), By: r.text(10), Reason: r.text(11)}
		}
		c.byName[t.Name], c.byNumber[t.number] = t, t
		return nil
	})
	if err == nil {
		c.settings = settings
	}
	return err
}

// moment is the time of a column; 0 and NULL are the zero time.
func moment(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

// micros is d in whole microseconds, rounded up: nothing happens too soon.
func micros(d time.Duration) int64 {
	n := d.Microseconds()
	if d > time.Duration(n)*time.Microsecond {
		n++
	}
	return n
}

const (
	insertTopic = `INSERT INTO pawl_topic (name, lanes, deadline, ageing, park, retain, version, tail, max_waiting)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING topic`
	updateTopic = `UPDATE pawl_topic SET lanes = ?, deadline = ?, ageing = ?, park = ?, retain = ?, version = ?, tail = ?,
		max_waiting = ? WHERE topic = ?`
	insertTotal = `INSERT INTO pawl_total (topic) VALUES (?)`
	pauseTopic  = `UPDATE pawl_topic SET paused_since = ?, paused_until = ?, paused_by = ?, paused_reason = ? WHERE topic = ?`
	countLive   = `SELECT appended - acked - cancelled - purged - (SELECT count(*) FROM pawl_dead WHERE topic = ?1)
		FROM pawl_total WHERE topic = ?1`
)

// topic returns a topic, created with default settings if need be.
func (k *work) topic(name string) (*topic, error) {
	if t := k.topics.byName[name]; t != nil {
		return t, nil
	}
	return k.create(store.NewTopic(name))
}

// create adds a topic.
func (k *work) create(settings store.Topic) (*topic, error) {
	t := &topic{Topic: settings}
	cols, _, err := first(k.db, insertTopic, t.Name, string(t.Order), int64(t.Deadline), int64(t.Ageing), t.Park,
		int64(t.Retain), t.Version, t.Tail, t.MaxWaiting)
	if err != nil {
		return nil, err
	}
	t.number = cols[0]
	if _, err := k.db.exec(insertTotal, t.number); err != nil {
		return nil, err
	}
	k.topics.byName[t.Name], k.topics.byNumber[t.number] = t, t
	k.changed()
	return t, nil
}

// changed makes every other process read the settings again.
func (k *work) changed() {
	k.state.settings++
	k.topics.settings = k.state.settings
}

// set stores other settings.
func (k *work) set(t *topic, to store.Topic) error {
	if t.Topic == to {
		return nil
	}
	_, err := k.db.exec(updateTopic, string(to.Order), int64(to.Deadline), int64(to.Ageing), to.Park, int64(to.Retain),
		to.Version, to.Tail, to.MaxWaiting, t.number)
	if err != nil {
		return err
	}
	t.Topic = to
	k.changed()
	return nil
}

// empty reports whether a topic has no message but dead letters. Totals of this
// transaction are in memory and count.
func (k *work) empty(t *topic) (bool, error) {
	cols, _, err := first(k.db, countLive, t.number)
	own := k.of(t.number)
	return cols[0]+own.appended-own.acked-own.cancelled-own.purged == 0, err
}

// Topic implements [store.Topics].
func (s *registry) Topic(ctx context.Context, name string) (store.Topic, error) {
	var found *topic
	err := s.read(ctx, "topic", func(k *work) error {
		found = k.topics.byName[name]
		return nil
	})
	if err != nil {
		return store.Topic{}, err
	}
	if found == nil {
		return store.Topic{}, notFound("topic", name)
	}
	return found.Topic, nil
}

// Declare implements [store.Topics].
func (s *registry) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if err := d.Validate(); err != nil {
		return store.Topic{}, err
	}
	return s.change(ctx, "declare", d.Name, d.Apply)
}

// Alter implements [store.Topics].
func (s *registry) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
	if err := to.Validate(); err != nil {
		return store.Topic{}, err
	}
	return s.change(ctx, "alter", to.Name, to.Replace)
}

// change changes settings to what agree makes of them. A topic that is not there is
// created by a declaration, and by nothing else.
func (s *registry) change(ctx context.Context, op, name string,
	agree func(now store.Topic, empty bool) (store.Topic, error)) (agreed store.Topic, err error) {
	err = s.manage(ctx, op, func(k *work) (refused, err error) {
		t := k.topics.byName[name]
		if t == nil && op == "alter" {
			return notFound(op, name), nil
		}
		if t == nil {
			if agreed, refused = agree(store.NewTopic(name), true); refused == nil {
				_, err = k.create(agreed)
			}
			return refused, err
		}
		agreed, refused = agree(t.Topic, true)
		if refused == nil && (agreed.Order != t.Order || agreed.Tail != t.Tail) {
			empty, err := k.empty(t)
			if err != nil {
				return nil, err
			}
			agreed, refused = agree(t.Topic, empty)
		}
		if refused == nil {
			err = k.set(t, agreed)
		}
		return refused, err
	})
	if err != nil {
		return store.Topic{}, err
	}
	return agreed, nil
}

// Pause implements [store.Topics].
func (s *registry) Pause(ctx context.Context, name string, d time.Duration, by, reason string) error {
	if err := pawl.ValidTopic(name); err != nil {
		return err
	}
	return s.write(ctx, &call{op: "pause", phase: toManage, do: func(k *work) error {
		t, err := k.topic(name)
		if err != nil {
			return err
		}
		p := &store.Pause{Since: moment(k.now), By: store.Text(by), Reason: store.Text(reason)}
		var until any
		if d > 0 {
			p.Until = moment(k.now + micros(d))
			until = p.Until.UnixMicro()
		}
		if _, err := k.db.exec(pauseTopic, k.now, until, p.By, p.Reason, t.number); err != nil {
			return err
		}
		t.pause = p
		k.changed()
		return nil
	}})
}

// Resume implements [store.Topics].
func (s *registry) Resume(ctx context.Context, name string) error {
	return s.write(ctx, &call{op: "resume", phase: toManage, do: func(k *work) error {
		t := k.topics.byName[name]
		if t == nil || t.pause == nil {
			return nil
		}
		if _, err := k.db.exec(pauseTopic, nil, nil, nil, nil, t.number); err != nil {
			return err
		}
		t.pause = nil
		k.changed()
		k.claimable(t.number)
		return nil
	}})
}
