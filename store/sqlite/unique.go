package sqlite

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	takeUnique = `INSERT INTO pawl_uniq (ukey, until, id) VALUES (?1, ?2, ?3)
		ON CONFLICT (ukey) DO UPDATE SET until = excluded.until, id = excluded.id
		WHERE until > 0 AND until <= ?4`
	selectUnique = `SELECT id FROM pawl_uniq WHERE ukey = ?`
	freeUnique   = `DELETE FROM pawl_uniq WHERE ukey = ? AND until = 0 AND id = ?`
)

// uniques is what is done with unique keys.
type uniques struct{ *work }

// claimUnique takes the unique key of a message that is to be appended, or
// returns the id of the message that was there first: with the same id, or with
// the same key.
func (k uniques) claimUnique(m *pawl.Message, id string, eid []byte) (first string, err error) {
	seen := false
	if err := k.db.query(selectSeq, func(row) error { seen = true; return nil }, eid); err != nil {
		return "", err
	}
	if seen {
		forgotten, err := k.forgetRetained(eid)
		if err != nil || !forgotten {
			return id, err
		}
	}
	return k.takeUnique(m.Topic, m.Unique, eid)
}

// takeUnique takes a unique key for a message, or returns whose it is.
func (k uniques) takeUnique(topic string, u pawl.Unique, eid []byte) (first string, err error) {
	until := int64(never)
	switch {
	case u.For <= 0:
		until = 0
	case u.For < pawl.MaxDelay:
		until = k.now + micros(u.For)
	}
	key := uniqueKey(topic, u)
	taken, err := k.db.exec(takeUnique, key, until, eid, k.now)
	if err != nil || taken > 0 {
		return "", err
	}
	err = k.db.query(selectUnique, func(r row) error {
		first = sqlstore.DecodeID(r.bytes(0))
		return nil
	}, key)
	if err == nil && first == "" {
		err = fmt.Errorf("unique key %.40q is taken, but by nobody", u.Key)
	}
	return first, err
}

// freeUnique gives up a key that was taken while the message lives, or until it is
// claimed.
func (k uniques) freeUnique(topic string, u pawl.Unique, eid []byte) error {
	if u.Key == "" || u.For > 0 {
		return nil
	}
	_, err := k.db.exec(freeUnique, uniqueKey(topic, u), eid)
	return err
}

// uniqueKey is the scope and the key. A topic's own scope is none that can be
// named.
func uniqueKey(topic string, u pawl.Unique) []byte {
	if u.Scope == "" {
		return append(uniqueScope('t', topic), u.Key...)
	}
	return append(uniqueScope('s', u.Scope), u.Key...)
}

// uniqueScope is how the unique keys of a scope begin, and no others.
func uniqueScope(kind byte, scope string) []byte {
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(scope))), scope...)
}

// encodeUnique is what a message says of its unique key; nil for none.
func encodeUnique(u pawl.Unique) []byte {
	if u.Key == "" {
		return nil
	}
	b := binary.AppendUvarint(nil, uint64(u.For))
	b = binary.AppendUvarint(b, uint64(len(u.Scope)))
	return append(append(b, u.Scope...), u.Key...)
}

func decodeUnique(b []byte) (u pawl.Unique, err error) {
	if len(b) == 0 {
		return u, nil
	}
	duration, n := binary.Uvarint(b)
	scope, m := binary.Uvarint(b[max(n, 0):])
	if n <= 0 || m <= 0 || uint64(len(b)-n-m) < scope {
		return u, fmt.Errorf("unique key of %d bytes is cut off", len(b))
	}
	b = b[n+m:]
	return pawl.Unique{Key: string(b[scope:]), Scope: string(b[:scope]), For: time.Duration(duration)}, nil
}
