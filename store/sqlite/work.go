package sqlite

import (
	"math"

	"github.com/pawl-dev/pawl/store"
)

// never is later than every time.
const never = math.MaxInt64

// work is a transaction under way: what it reads first and writes last, so that
// calls that share it do so once.
type work struct {
	db     session
	now    int64 // the store's clock, in microseconds
	topics *topicCache
	state  state
	stored state
	totals map[int64]*totals
	woken  map[string]bool // topics in which something became claimable
	// active are lanes of keys, by hash, that have messages. It is kept only
	// while messages are appended and nothing else happens.
	active map[int64]int64
}

// state is the row of pawl_state.
type state struct {
	seq       int64
	settings  int64
	closedDue int64
	leaseDue  int64
	clock     int64 // the latest time at which something was written, to a second
}

// totals are what a transaction adds to the totals of a topic.
type totals struct {
	appended, acked, cancelled, purged, duplicates, retried, rescues int64
}

const (
	loadState = `SELECT seq, settings, closed_due, lease_due, clock FROM pawl_state`
	saveState = `UPDATE pawl_state SET seq = ?, settings = ?, closed_due = ?, lease_due = ?, clock = ?`
	addTotals = `INSERT INTO pawl_total VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (topic) DO UPDATE SET appended = appended + excluded.appended, acked = acked + excluded.acked,
		cancelled = cancelled + excluded.cancelled, purged = purged + excluded.purged,
		duplicates = duplicates + excluded.duplicates, retried = retried + excluded.retried, rescues = rescues + excluded.rescues,
		last_ack = max(last_ack, excluded.last_ack)`
)

// work begins the work of a transaction, or of a look without one, at the time of the store's clock.
func (s *core) work(db session, topics *topicCache) (*work, error) {
	k := &work{db: db, now: s.cfg.Now().UnixMicro(), topics: topics}
	return k, k.load()
}

// load reads the state, and the topics if they changed.
func (k *work) load() error {
	cols, ok, err := first(k.db, loadState)
	if err != nil {
		return err
	}
	if !ok {
		return &store.Error{Op: "read state", Code: store.ErrSchema,
			Hint: "the row of pawl_state is missing: restore a backup"}
	}
	k.state = state{seq: cols[0], settings: cols[1], closedDue: cols[2], leaseDue: cols[3], clock: cols[4]}
	k.stored = k.state
	return k.topics.load(k.db, k.state.settings)
}

// finish writes what was gathered.
func (k *work) finish() error {
	for topic, t := range k.totals {
		if *t == (totals{}) {
			continue
		}
		lastAck := int64(0)
		if t.acked > 0 {
			lastAck = k.now
		}
		if _, err := k.db.exec(addTotals, topic, t.appended, t.acked, t.cancelled, t.purged, t.duplicates, t.retried,
			t.rescues, lastAck); err != nil {
			return err
		}
	}
	if k.now-k.state.clock > clockSlack {
		k.state.clock = k.now
	}
	if k.state == k.stored {
		return nil
	}
	_, err := k.db.exec(saveState, k.state.seq, k.state.settings, k.state.closedDue, k.state.leaseDue,
		k.state.clock)
	return err
}

// execAll executes statements one after the other with the same arguments.
func (k *work) execAll(queries []string, args ...any) error {
	for _, query := range queries {
		if _, err := k.db.exec(query, args...); err != nil {
			return err
		}
	}
	return nil
}

// of returns the totals of a topic, to be added to.
func (k *work) of(topic int64) *totals {
	t := k.totals[topic]
	if t == nil {
		t = &totals{}
		if k.totals == nil {
			k.totals = map[int64]*totals{}
		}
		k.totals[topic] = t
	}
	return t
}

// claimable notes that a topic has something for those who listen.
func (k *work) claimable(topic int64) {
	t := k.topics.byNumber[topic]
	if t == nil {
		return
	}
	if k.woken == nil {
		k.woken = map[string]bool{}
	}
	k.woken[t.Name] = true
}
