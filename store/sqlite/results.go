package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	ofResults = ` FROM pawl_msg m WHERE m.seq > ?1 AND m.seq <= ?2 AND m.topic = ?3
		AND NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq) AND NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq)
		ORDER BY m.seq LIMIT ?4`
	// Messages get their numbers, and become visible, in the order of transactions:
	// there is one writer.
	selectResults   = `SELECT m.seq, m.enqueued, ` + contentCols + ofResults
	selectResultIDs = `SELECT m.seq, m.id` + ofResults
	// removePart is how many messages a transaction removes.
	removePart = 500
)

// ScanResults implements [store.Results].
func (s *inspector) ScanResults(ctx context.Context, topic string, after int64, limit int) (results []store.Result,
	next int64, err error) {
	if err := backend.AdmitScan(topic, after, limit); err != nil {
		return nil, after, err
	}
	err = s.peek(ctx, "scan results", func(k *work) error {
		t := k.topics.byName[topic]
		if next = max(after, k.state.seq); t == nil {
			return nil
		}
		if err := backend.AdmitResults("scan results", &t.Topic); err != nil {
			return err
		}
		size := 0
		return k.db.query(selectResults, func(r row) error {
			one, err := readResult(topic, r)
			if size += one.Size(); size > backend.ResultBytes && len(results) > 0 {
				next = results[len(results)-1].Cursor
				return errEnough
			}
			if results = append(results, one); len(results) == limit {
				next = one.Cursor
			}
			return err
		}, after, next, t.number, int64(limit))
	})
	if err != nil {
		return nil, after, err
	}
	return results, next, nil
}

func readResult(topic string, r row) (store.Result, error) {
	m, err := content(topic, r, 2)
	return store.Result{Cursor: r.int(0), Message: m, EnqueuedAt: moment(r.int(1))}, err
}

// RemoveResults implements [store.Results].
func (s *inspector) RemoveResults(ctx context.Context, topic string, upTo int64) (removed int64, err error) {
	if err := backend.AdmitScan(topic, upTo, 1); err != nil {
		return 0, err
	}
	for from := s.removed.From(topic, upTo); ; {
		part, last, left := int64(0), int64(0), false
		err := s.write(ctx, &call{op: "remove results", phase: toManage, weight: removePart,
			do: func(k *work) (err error) {
				part, last, left, err = k.removeResults(topic, from, upTo)
				return err
			}})
		if removed += part; err != nil {
			return removed, err
		}
		if !left {
			s.removed.Note(topic, from, last)
		}
		if last == upTo {
			return removed, nil
		}
		from = last
	}
}

// removeResults removes a part, and returns how far it came; left: some may be left.
func (k *work) removeResults(topic string, from, upTo int64) (removed, last int64, left bool, err error) {
	t := k.topics.byName[topic]
	if t == nil {
		return 0, upTo, true, nil
	}
	if err := backend.AdmitResults("remove results", &t.Topic); err != nil {
		return 0, 0, false, err
	}
	var ids []string
	err = k.db.query(selectResultIDs, func(r row) error {
		last = r.int(0)
		ids = append(ids, sqlstore.DecodeID(r.bytes(1)))
		return nil
	}, from, upTo, t.number, int64(removePart))
	if len(ids) < removePart {
		last = upTo
		left = upTo > k.state.seq // what comes later may have such a number
	}
	for _, id := range ids {
		if err != nil {
			return 0, 0, false, err
		}
		var st *removable
		if st, _, err = (looks{k}).notLeased("remove results", id); st == nil {
			left = true
		} else if err = (looks{k}).takeOut(st); err == nil {
			removed++
		}
	}
	k.of(t.number).acked += removed
	return removed, last, left, err
}
