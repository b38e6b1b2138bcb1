package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// meta has the rare fields of a message, in one column, so that the usual row is small. It is
// JSON, for people with psql.
type meta struct {
	Size     int               `json:"n,omitempty"` // first in the text; bytes of all header names and values
	Headers  map[string]string `json:"h,omitempty"`
	Scope    []byte            `json:"s,omitempty"` // of the unique key; bytes, because both may be any
	Key      []byte            `json:"u,omitempty"`
	For      time.Duration     `json:"f,omitempty"`
	Delay    time.Duration     `json:"d,omitempty"`
	Enqueued int64             `json:"e,omitempty"` // microseconds; only of a replayed message
}

// encodeMeta returns nothing for a message without any of these fields.
func encodeMeta(m *pawl.Message, enqueued int64) string {
	if len(m.Headers) == 0 && m.Unique.Key == "" && m.Delay == 0 && enqueued == 0 {
		return ""
	}
	v := meta{
		Headers: m.Headers, Scope: []byte(m.Unique.Scope), Key: []byte(m.Unique.Key), For: m.Unique.For,
		Delay: m.Delay, Enqueued: enqueued,
	}
	for k, h := range m.Headers {
		v.Size += len(k) + len(h)
	}
	b, _ := json.Marshal(v) // texts and numbers always marshal
	return string(b)
}

// decodeMeta adds the fields of the column to m, and returns when m was stored, given when it
// became visible.
func decodeMeta(m *pawl.Message, text []byte, visible int64) (enqueued int64, err error) {
	if len(text) == 0 {
		return visible, nil
	}
	var v meta
	if err := json.Unmarshal(text, &v); err != nil {
		return 0, fmt.Errorf("decode what else is known of message %s: %w", m.ID, err)
	}
	m.Headers, m.Delay = v.Headers, v.Delay
	m.Unique = pawl.Unique{Key: string(v.Key), Scope: string(v.Scope), For: v.For}
	if v.Enqueued != 0 {
		return v.Enqueued, nil
	}
	return visible - micros(v.Delay), nil
}

// uniqueKey is the stored form of a unique key; nil for none.
func uniqueKey(m *pawl.Message) []byte {
	if m.Unique.Key == "" {
		return nil
	}
	scope := uniqueScope(m.Unique.Scope)
	if m.Unique.Scope == "" {
		scope = scopeHash("topic " + m.Topic)
	}
	key := sha256.Sum256([]byte(m.Unique.Key))
	return append(scope, key[:16]...)
}

// uniqueScope is how all unique keys of a named scope begin: they lie beside one
// another, and can be forgotten together.
func uniqueScope(scope string) []byte { return scopeHash("scope " + scope) }

func scopeHash(scope string) []byte {
	h := sha256.Sum256([]byte(scope))
	return h[:16:16]
}

// takenFor is how long a unique key is taken, in microseconds: 0 while the
// message lives, or until it is claimed, -1 for ever.
func takenFor(m *pawl.Message) int64 {
	if m.Unique.For < 0 {
		return 0
	}
	if m.Unique.For >= pawl.MaxDelay {
		return -1
	}
	return micros(m.Unique.For)
}

// micros is d in whole microseconds, rounded up: nothing happens too soon.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// keyOf is nil for a message without a key, as everywhere but in a row.
func keyOf(column []byte) []byte {
	if len(column) == 0 {
		return nil
	}
	return column
}

// rowsOf is messages as columns of an insert.
type rowsOf struct {
	index  []int32
	topic  []int32 // position in topics, from 1
	prio   []int16
	lane   []int64 // of its key; 0: no key
	key    [][]byte
	id     [][]byte
	given  []bool  // the id is the caller's and may be there already
	after  []int32 // the index of an earlier one with the same id; 0: none
	ukey   [][]byte
	ufor   []int64
	meta   []string
	body   [][]byte
	delay  []int64
	topics []int32

	keyed, unique, delayed, named bool
	byID                          map[string]int32
}

// add adds a message. index counts from 1.
func (c *rowsOf) add(index int, t *topic, m *pawl.Message, id string, given bool) {
	position := slices.Index(c.topics, t.id)
	if position < 0 {
		position = len(c.topics)
		c.topics = append(c.topics, t.id)
	}
	lane := int64(0)
	if m.Key != nil {
		lane = sqlstore.KeyLane(int64(t.id), m.Key)
		c.keyed = true
	}
	after := int32(0)
	if given {
		c.named = true
		if c.byID == nil {
			c.byID = map[string]int32{}
		}
		if after = c.byID[id]; after == 0 {
			c.byID[id] = int32(index)
		}
	}
	c.unique = c.unique || m.Unique.Key != ""
	c.delayed = c.delayed || m.Delay > 0
	c.index = append(c.index, int32(index))
	c.topic = append(c.topic, int32(position+1))
	c.prio = append(c.prio, int16(m.Priority))
	c.lane = append(c.lane, lane)
	c.key = append(c.key, m.Key)
	c.id = append(c.id, sqlstore.EncodeID(id))
	c.given = append(c.given, given)
	c.after = append(c.after, after)
	c.ukey = append(c.ukey, uniqueKey(m))
	c.ufor = append(c.ufor, takenFor(m))
	c.meta = append(c.meta, encodeMeta(m, 0))
	c.body = append(c.body, m.Body)
	c.delay = append(c.delay, micros(m.Delay))
}

// plain reports whether all are fresh messages of one topic and priority with
// nothing but a body.
func (c *rowsOf) plain() bool {
	if c.keyed || c.unique || c.delayed || c.named || len(c.topics) != 1 {
		return false
	}
	for i := range c.prio {
		if c.prio[i] != c.prio[0] || c.meta[i] != "" {
			return false
		}
	}
	return true
}

// maxBatchID is how long a batch id may be before a hash stands for it.
const maxBatchID = 256

// batchID is the bytes under which the outcome of a call is kept; nil asks for
// no memory.
func batchID(id string) []byte {
	if id == "" {
		return nil
	}
	if len(id) > maxBatchID {
		sum := sha256.Sum256([]byte(id))
		return append(bytes.Repeat([]byte{0xff}, maxBatchID), sum[:]...)
	}
	return sqlstore.EncodeID(id)
}
