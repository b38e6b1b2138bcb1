package sqlite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// Of more the next sweep takes care.
	selectSent = `SELECT n, at, topic, key, body, options FROM pawl_sent ORDER BY n LIMIT 1000`
	dropSent   = `DELETE FROM pawl_sent WHERE n <= ?`
)

// maxSent is how many bytes a transaction takes in.
const maxSent = 4 * pawl.MaxBody

// sent is a row of pawl_sent.
type sent struct {
	n, at int64
	m     pawl.Message
}

// takeIn appends messages that programs have sent by SQL since the last call of a store, in their order, each behind
// what fell due before it was sent. It reports whether there may be more.
func (k *work) takeIn() (more bool, err error) {
	var rows []sent
	size := 0
	err = k.db.query(selectSent, func(r row) error {
		s, err := readSent(r)
		rows, size = append(rows, s), size+s.m.Size()
		if err == nil && size > maxSent {
			err = errEnough
		}
		return err
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	due, _, err := first(k.db, firstDue)
	if err != nil {
		return false, err
	}
	now := k.now
	defer func() { k.now = now }()
	k.state.closedDue = cmp.Or(due[0], never)
	for i := range rows {
		r := &rows[i]
		k.now = min(r.at, now)
		for k.joining() && err == nil {
			err = k.openDue()
		}
		if err == nil {
			_, err = k.append(&r.m, cmp.Or(r.m.ID, pawl.NewID()))
		}
		if err != nil {
			return false, err
		}
	}
	_, err = k.db.exec(dropSent, rows[len(rows)-1].n)
	return len(rows) == 1000 || size > maxSent, err
}

// readSent reads a row whose options the trigger has found to be valid.
func readSent(r row) (s sent, err error) {
	s = sent{n: r.int(0), at: r.int(1), m: pawl.Message{Topic: r.text(2), Key: r.bytes(3), Body: r.bytes(4)}}
	if r[5] == nil {
		return s, nil
	}
	var o struct {
		ID           string            `json:"id"`
		Priority     float64           `json:"priority"`
		DelaySeconds float64           `json:"delay_seconds"`
		Headers      map[string]string `json:"headers"`
		UniqueKey    string            `json:"unique_key"`
		UniqueScope  string            `json:"unique_scope"`
		UniqueFor    float64           `json:"unique_for_seconds"`
		UntilClaimed bool              `json:"until_claimed"`
	}
	if err := json.Unmarshal([]byte(r.text(5)), &o); err != nil {
		return s, fmt.Errorf("read options of pawl_send: %w", err)
	}
	s.m.ID, s.m.Priority, s.m.Headers = o.ID, int(o.Priority), o.Headers
	s.m.Delay = time.Duration(o.DelaySeconds * float64(time.Second))
	s.m.Unique = pawl.Unique{Key: o.UniqueKey, Scope: o.UniqueScope, For: pawl.Forever}
	switch {
	case o.UntilClaimed:
		s.m.Unique.For = pawl.UntilClaimed
	case o.UniqueFor < pawl.MaxDelay.Seconds():
		s.m.Unique.For = time.Duration(o.UniqueFor * float64(time.Second))
	}
	return s, nil
}
