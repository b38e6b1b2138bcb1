package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// reader reads topics by a cursor.
type reader struct {
	*core
	inspector *inspector
	registry  *registry
	results   results
}

const (
	lastNumber = `SELECT last_value, is_called FROM @msg_seq`
	// writersOfMessages are the transactions that may have taken numbers and not
	// committed yet: each locks the table of messages before it takes the first, and
	// until it has become visible.
	writersOfMessages = `SELECT virtualtransaction FROM pg_locks
		WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND relation = '@msg'::regclass AND mode = 'RowExclusiveLock' AND granted`
	// Messages of a topic without order are lanes of their own, and their lane is
	// their number: the primary key has them in order. $1 from, $2 to, $3 topic, $4
	// how many, $5 how many bytes.
	selectResults = `SELECT ` + messageColumns + `, m.lane FROM (
			SELECT m.*, sum(octet_length(m.body)) OVER (ORDER BY m.lane) - octet_length(m.body) AS before FROM (
				SELECT * FROM @msg m WHERE m.lane > $1::bigint AND m.lane <= $2::bigint AND m.topic = $3::int ORDER BY m.lane LIMIT $4::bigint) m) m
		WHERE m.before < $5::bigint ORDER BY m.lane`
	placesOfResults = `SELECT m.lane, m.seq, m.topic, m.prio, m.rank FROM @msg m
		WHERE m.lane > $1::bigint AND m.lane <= $2::bigint AND m.topic = $3::int ORDER BY m.lane LIMIT $4::bigint`
	removeResults = removeMessagesAs + `2` + removeMessagesOf

	// removePart is how many messages a transaction removes.
	removePart = 2000
	// resultsWait is how long a scan waits for transactions that are under way,
	// and resultsPause how often it looks: most take a millisecond.
	resultsWait  = 60 * time.Millisecond
	resultsPause = 3 * time.Millisecond
)

// results knows how far numbers of messages are settled: all up to safe are visible,
// or never will be.
type results struct {
	mu      sync.Mutex
	safe    int64
	next    int64           // becomes safe when the writers have ended; 0: none
	writers map[string]bool // that may have numbers up to next

	removed sqlstore.Removed
}

// saw records the last number that was given out and the transactions that were writing
// after that.
func (h *results) saw(last int64, writers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last < h.safe || last < h.next {
		h.safe, h.next = 0, 0 // the schema was created again
	}
	still := func(w string) bool { return h.writers[w] }
	if h.next > 0 && !slices.ContainsFunc(writers, still) {
		h.safe, h.next = h.next, 0
	}
	if len(writers) == 0 {
		h.safe, h.next = last, 0
	}
	if h.next == 0 && last > h.safe {
		h.next, h.writers = last, map[string]bool{}
		for _, w := range writers {
			h.writers[w] = true
		}
	}
}

// settled returns how far numbers are settled, and whether that is all of them that
// were seen when the scan began.
func (h *results) settled(last int64) (safe int64, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.safe, h.safe >= last
}

// settledNumber is how far a scan may go now. It waits a moment for transactions
// that are under way.
func (s *reader) settledNumber(ctx context.Context) (int64, error) {
	first := int64(-1)
	for start := time.Now(); ; {
		last, writers := int64(0), []string(nil)
		err := s.callAfresh(ctx, s.front, func() { writers = nil }, read(lastNumber, func(r row) error {
			if last = r.int8(0); !r.bool(1) {
				last = 0
			}
			return nil
		}), read(writersOfMessages, add(&writers, row.text)))
		if err != nil {
			return 0, err
		}
		if s.results.saw(last, writers); first < 0 {
			first = last
		}
		safe, all := s.results.settled(first)
		if all || time.Since(start) > resultsWait {
			return safe, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(resultsPause):
		}
	}
}

// resultsTopic is a topic whose messages have an order; nil if it is not there.
func (s *reader) resultsTopic(ctx context.Context, op, name string) (*topic, error) {
	t, err := s.registry.known(ctx, name)
	if err == nil && t != nil {
		err = backend.AdmitResults(op, &t.Topic)
	}
	return t, err
}

// ScanResults implements [store.Results]. A transaction of any topic that stays open after an
// AppendTx holds back messages that are appended after it began.
func (s *reader) ScanResults(ctx context.Context, topic string, after int64, limit int) (results []store.Result,
	next int64, err error) {
	const op = "scan results"
	if err := backend.AdmitScan(topic, after, limit); err != nil {
		return nil, after, err
	}
	next = after
	err = s.guard(ctx, op, func(ctx context.Context) error {
		t, err := s.resultsTopic(ctx, op, topic)
		if err != nil || t == nil {
			return err
		}
		safe, err := s.settledNumber(ctx)
		if err != nil || safe <= after {
			return err
		}
		size := 0
		err = s.callAfresh(ctx, s.front, func() { results, size = nil, 0 }, read(selectResults, func(r row) error {
			rec, err := s.inspector.readBare(r)
			size += len(rec.Body)
			results = append(results, store.Result{Cursor: r.int8(9), Message: rec.Message, EnqueuedAt: rec.EnqueuedAt})
			return err
		}, int8Value(after), int8Value(safe), int4Value(t.id), int8Value(int64(limit)), int8Value(backend.ResultBytes)))
		if err != nil {
			return err
		}
		if next = safe; len(results) == limit || size >= backend.ResultBytes {
			next = results[len(results)-1].Cursor
		}
		return nil
	})
	if err != nil {
		return nil, after, err
	}
	return results, next, nil
}

// RemoveResults implements [store.Results].
func (s *reader) RemoveResults(ctx context.Context, name string, upTo int64) (removed int64, err error) {
	const op = "remove results"
	if err := backend.AdmitScan(name, upTo, 1); err != nil {
		return 0, err
	}
	var found *topic
	err = s.guard(ctx, op, func(ctx context.Context) (err error) {
		found, err = s.resultsTopic(ctx, op, name)
		return err
	})
	if err != nil || found == nil {
		return 0, err
	}
	safe, _ := s.results.settled(0)
	for from := s.results.removed.From(name, upTo); from < upTo; {
		part, seen, last, err := s.removePart(ctx, found.id, from, upTo)
		if err != nil {
			return removed, err
		}
		if removed += part; part == seen && last <= safe {
			s.results.removed.Note(name, from, last)
		}
		from = last
	}
	return removed, nil
}

// removePart removes some messages in a transaction, and returns how many it removed, how many
// it found, and how far it came.
func (s *reader) removePart(ctx context.Context, id int32, from, upTo int64) (removed, found, last int64, err error) {
	err = s.guard(ctx, "remove results", func(ctx context.Context) error {
		return s.within(ctx, s.front, nil, func(t *tx) error {
			removed = 0
			all, err := query(ctx, t, func(r row) (cancelling, error) {
				return cancelling{lane: r.int8(0), seq: r.int8(1), topic: r.id(2), prio: int16(r.int2(3)),
					rank: r.int8(4)}, nil
			}, placesOfResults, int8Value(from), int8Value(upTo), int4Value(id), int8Value(removePart))
			if err != nil {
				return err
			}
			if found, last = int64(len(all)), upTo; found == removePart {
				last = all[found-1].lane
			}
			free, err := s.inspector.freeSolo(ctx, t, all)
			if err != nil || len(free) == 0 {
				return err
			}
			lanes, seqs := positions(free)
			return t.run(ctx, read(removeResults, func(row) error {
				removed++
				return nil
			}, lanes, seqs))
		})
	})
	return removed, found, last, err
}
