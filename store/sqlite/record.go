package sqlite

import (
	"cmp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// selectRecords and selectDead give everything that is known of messages, or of
// dead letters, but their history. The caller adds the condition. A closed lane
// delays its first message only.
const (
	selectRecords = recordColumns + `FROM pawl_msg m LEFT JOIN pawl_dead d ON d.seq = m.seq` + recordJoins
	selectDead    = recordColumns + `FROM pawl_dead d CROSS JOIN pawl_msg m ON m.seq = d.seq` + recordJoins
	recordColumns = `SELECT m.seq, m.lane, m.topic, m.rank, m.enqueued, m.replays, ` + contentCols + `,
		t.attempts, t.rescues, t.lonely, t.reason,
		l.fence, l.until, l.hard, l.started, l.topic, l.last, l.alone, l.owner, l.extras,
		c.at, a.at, d.at, d.kind, d.reason, d.fingerprint, a.forget, d.n, t.throttles, t.throttled,
		d.resolved, d.resolved_by, d.note `
	// selectBrief gives of dead letters what takes no look at their bodies.
	selectBrief = `SELECT m.seq, m.lane, m.topic, m.rank, m.enqueued, m.replays, m.prio, m.delay, m.id, m.key, NULL, m.uniq, NULL,
		t.attempts, t.rescues, t.lonely, NULL,
		NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
		NULL, NULL, d.at, d.kind, d.reason, d.fingerprint, NULL, d.n, 0, 0, d.resolved, d.resolved_by, d.note
		FROM pawl_dead d CROSS JOIN pawl_msg m ON m.seq = d.seq LEFT JOIN pawl_tried t ON t.seq = m.seq `
	recordJoins = `
		LEFT JOIN pawl_tried t ON t.seq = m.seq
		LEFT JOIN pawl_acked a ON a.seq = m.seq
		LEFT JOIN pawl_lease l ON l.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END AND m.seq <= l.last
		LEFT JOIN pawl_closed c ON c.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END
			AND NOT EXISTS (SELECT 1 FROM pawl_msg f WHERE f.lane = m.lane AND f.lane < 0 AND f.seq < m.seq) `
)

const selectHistory = `SELECT record FROM pawl_attempt WHERE seq = ? ORDER BY n`

// contentCols are the columns of a message that no state changes; see content.
const contentCols = `m.prio, m.delay, m.id, m.key, m.headers, m.uniq, m.body`

// content reads contentCols from column at on.
func content(topic string, r row, at int) (m pawl.Message, err error) {
	m = pawl.Message{
		Topic: topic, Priority: int(r.int(at)), Delay: time.Duration(r.int(at + 1)),
		ID: sqlstore.DecodeID(r.bytes(at + 2)), Key: r.bytes(at + 3), Body: r.bytes(at + 6),
	}
	if m.Headers, err = sqlstore.DecodeHeaders(r.bytes(at + 4)); err == nil {
		m.Unique, err = decodeUnique(r.bytes(at + 5))
	}
	return m, err
}

// found is a record and what a listing has to know beside it.
type found struct {
	store.Record
	seq    int64
	death  int64
	forget int64
}

// briefly returns what such a query gives, without histories.
func (k *work) briefly(query string, args ...any) ([]found, error) {
	return collect(k.db, k.record1, query, args...)
}

// records returns what such a query gives, with histories.
func (k *work) records(query string, args ...any) ([]found, error) {
	all, err := k.briefly(query, args...)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].History, err = collect(k.db, func(r row) (store.Attempt, error) {
			return sqlstore.DecodeAttempt(r.bytes(0))
		}, selectHistory, all[i].seq)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// record1 makes a record of a row.
func (k *work) record1(r row) (f found, err error) {
	name := ""
	if t := k.topics.byNumber[r.int(2)]; t != nil {
		name = t.Name
	}
	m, err := content(name, r, 6)
	if err != nil {
		return f, err
	}
	f = found{seq: r.int(0), forget: r.int(32), death: r.int(33), Record: store.Record{
		Message: m, State: store.Waiting, Rank: r.int(3), EnqueuedAt: moment(r.int(4)), Replays: int(r.int(5)),
		Attempts: int(r.int(13)), Rescues: int(r.int(14)), Lonely: int(r.int(15)), Reason: store.CauseAppended,
	}}
	if r[16] != nil {
		f.Reason = r.text(16)
	}
	if f.Throttles = int(r.int(34)); f.Throttles > 0 && f.State != store.IsDead {
		f.ThrottledSince = moment(r.int(35))
	}
	switch {
	case r[28] != nil:
		f.State, f.DeadAt = store.IsDead, moment(r.int(28))
		f.Kind, f.Reason, f.Fingerprint = pawl.Kind(r.text(29)), r.text(30), r.text(31)
		f.Resolved = resolution(r, 36)
	case r[27] != nil:
		f.State, f.AckedAt = store.Acked, moment(r.int(27))
	case r[17] != nil:
		lane := cmp.Or(r.int(1), f.seq)
		l := newLease(lane, r[17:])
		f.State = store.Leased
		f.Lease = &store.LeaseRecord{
			Owner: l.owner, Token: pawl.Token{Fence: l.fence, Lane: lane, Seq: f.seq},
			StartedAt: moment(l.started), Until: moment(l.until), Deadline: moment(l.hard),
		}
	case r.int(26) > k.now:
		f.State, f.NotBefore = store.Delayed, moment(r.int(26))
	}
	return f, nil
}
