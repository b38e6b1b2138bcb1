package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/bound"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	insertMessage = `INSERT INTO pawl_msg (seq, lane, topic, prio, rank, enqueued, hidden, delay, replays, id, key, headers, uniq, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	insertSlot     = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane) VALUES (?, 0, ?, ?, 0)`
	insertLaneSlot = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane) VALUES (?, 0, ?, ?, ?)`
	selectSeq      = `SELECT seq FROM pawl_msg WHERE id = ?`
	// A retained message counts as gone once its retention is over.
	selectForgotten = `SELECT a.seq FROM pawl_msg m JOIN pawl_acked a ON a.seq = m.seq WHERE m.id = ?1 AND a.forget <= ?2`
)

// Append implements [store.Store].
func (s *core) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	admitted, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	if len(batch.Items) == 0 {
		return admitted, s.usable(ctx, "append")
	}
	var receipts []store.Receipt
	err = s.write(ctx, &call{op: "append", phase: toAppend, weight: weigh(batch.Items), afterDue: true,
		do: func(k *work) (err error) {
			receipts, err = k.appendBatch(ctx, &s.meter, batch, admitted)
			return err
		}})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// weigh is the weight of an append.
func weigh(msgs []pawl.Message) int {
	n := len(msgs)
	for i := range msgs {
		n += msgs[i].Size() / perWeight
	}
	return n
}

// AppendTx implements [store.TxStore]: tx is a transaction on the file of the store, of
// the driver modernc.org/sqlite; one on another file is refused, and that of another library with
// [ErrOtherLibrary]. Begin it with BEGIN IMMEDIATE (the parameter _txlock=immediate): a
// transaction that has read before it appends fails if another one has written
// meanwhile. While it is open, no other process can write to the file, and every other
// call waits. What is appended is under a savepoint: an error of AppendTx leaves the
// transaction as it was. A context that ends is noticed between two statements.
func (s *core) AppendTx(ctx context.Context, tx *sql.Tx, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	admitted, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	if s.cfg.ReadOnly {
		return nil, denied("append")
	}
	if err := s.usable(ctx, "append"); err != nil {
		return nil, err
	}
	var receipts []store.Receipt
	err = s.inTx(ctx, tx, "append", func(k *work) (err error) {
		receipts, err = k.appendBatch(context.WithoutCancel(ctx), &s.meter, batch, admitted)
		return err
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// AckTx implements [store.TxStore], in transactions as those of [Store.AppendTx].
func (s *core) AckTx(ctx context.Context, tx *sql.Tx, token pawl.Token) error {
	if s.cfg.ReadOnly {
		return denied("ack")
	}
	if err := s.usable(ctx, "ack"); err != nil {
		return err
	}
	var refused []store.Refusal
	err := s.inTx(ctx, tx, "ack", func(k *work) (err error) {
		refused, err = k.settleBatch(store.NewBatch(store.Settlement{Token: token, Verdict: store.Ack}), nil)
		return err
	})
	if err == nil && len(refused) > 0 {
		err = refused[0].Err
	}
	return err
}

// inTx does something in a transaction of the caller's.
func (s *core) inTx(ctx context.Context, tx *sql.Tx, op string, do func(*work) error) error {
	err := s.checkLibrary(context.WithoutCancel(ctx), tx)
	if err == nil {
		err = s.under(ctx, tx, do)
	}
	if errors.Is(err, sql.ErrTxDone) {
		return &store.Error{Op: op, Code: store.ErrInvalid, Err: err,
			Hint: op + " before the commit; after an error, roll back and begin another transaction"}
	}
	if err != nil {
		return s.readError(ctx, op, err)
	}
	return nil
}

const (
	savepoint  = "SAVEPOINT pawl_append"
	rollbackTo = "ROLLBACK TO pawl_append"
	release    = "RELEASE pawl_append"
)

// under does something under a savepoint, so that a half of it is never committed.
// No statement is interrupted: SQLite would take back all of the caller's
// transaction with it, and what the caller does next would be outside of one.
func (s *core) under(ctx context.Context, tx *sql.Tx, do func(*work) error) error {
	whole := context.WithoutCancel(ctx)
	// After some errors SQLite has rolled back, and the caller's tx does not know: a savepoint
	// would be a transaction of its own. Only outside of one does BEGIN succeed.
	if _, err := tx.ExecContext(whole, "BEGIN"); err == nil {
		_, _ = tx.ExecContext(whole, "ROLLBACK")
		return fmt.Errorf("an earlier error ended the transaction: %w", sql.ErrTxDone)
	}
	if _, err := tx.ExecContext(whole, savepoint); err != nil {
		return err
	}
	db := newTxSession(whole, tx)
	defer db.close()
	db.between = ctx
	k, err := s.work(db, &topicCache{})
	if err == nil {
		err = do(k)
	}
	if err == nil {
		err = k.finish()
	}
	if err != nil {
		// SQLite may have rolled back everything already; then this fails, and so will
		// the caller's commit.
		_, _ = tx.ExecContext(whole, rollbackTo)
		_, _ = tx.ExecContext(whole, release)
		return err
	}
	_, err = tx.ExecContext(whole, release)
	return err
}

// appendBatch appends what was admitted and has room, unless the batch was here before.
// It does not end with ctx.
func (k *work) appendBatch(ctx context.Context, meter *bound.Meter, batch store.Batch[pawl.Message],
	admitted []store.Receipt) (receipts []store.Receipt, err error) {
	if outcome, known, err := k.recall(ofAppend, batch.ID); err != nil {
		return nil, err
	} else if known {
		return sqlstore.DecodeReceipts(outcome)
	}
	// What became due before is in front.
	if err := k.sweepAll(); err != nil {
		return nil, err
	}
	k.active = map[int64]int64{}
	defer func() { k.active = nil }()
	receipts = append([]store.Receipt(nil), admitted...) // do may run twice
	done, err := meter.Admit(ctx, k.look(), batch.Items, receipts)
	if err != nil {
		return nil, err
	}
	defer func() { done(receipts) }() // nil if it fails
	for i := range batch.Items {
		if receipts[i].Err != nil {
			continue
		}
		first, err := k.append(&batch.Items[i], receipts[i].ID)
		if err != nil {
			return nil, err
		}
		receipts[i].DuplicateOf = first
	}
	return receipts, k.remember(ofAppend, batch.ID, func() []byte { return sqlstore.EncodeReceipts(receipts) })
}

// append stores one message, unless it is there: then it returns the id of what
// is there.
func (k *work) append(m *pawl.Message, id string) (duplicateOf string, err error) {
	t, err := k.topic(m.Topic)
	if err != nil {
		return "", err
	}
	eid := sqlstore.EncodeID(id)
	if m.Unique.Key != "" {
		if duplicateOf, err = (uniques{k}).claimUnique(m, id, eid); err != nil || duplicateOf != "" {
			k.of(t.number).duplicates++
			return duplicateOf, err
		}
	}
	k.state.seq++
	n := newcomer{seq: k.state.seq, wait: micros(m.Delay)}
	if t.keyed(m.Key) {
		n.hash = sqlstore.KeyLane(t.number, m.Key)
	}
	if n.hash != 0 && n.wait == 0 {
		if n.lane, n.alone, err = k.laneOf(n.hash, n.seq); err != nil {
			return "", err
		}
	}
	n.rank = t.Rank(moment(k.now+n.wait), m.Priority)
	stored, err := k.insert(m, t, &n, eid)
	if err == nil && stored == 0 {
		if forgotten, err2 := k.forgetRetained(eid); err2 != nil || !forgotten {
			k.of(t.number).duplicates++
			return id, err2
		}
		stored, err = k.insert(m, t, &n, eid)
	}
	if err != nil {
		return "", err
	}
	if stored != 1 {
		return "", fmt.Errorf("message %s was not stored", id)
	}
	k.of(t.number).appended++
	return "", k.admit(t, &n)
}

// newcomer is the place of a message that is being appended.
type newcomer struct {
	seq, lane, rank int64
	hash            int64 // of its key, in a topic with order by key
	wait            int64 // until it is visible
	alone           bool  // its lane is new
}

// insert stores the row of a message; 0 if its id is there.
func (k *work) insert(m *pawl.Message, t *topic, n *newcomer, eid []byte) (int64, error) {
	return k.db.exec(insertMessage, n.seq, n.lane, t.number, int64(m.Priority), n.rank, k.now, n.wait, int64(m.Delay),
		eid, blob(m.Key), blob(sqlstore.EncodeHeaders(m.Headers)), blob(encodeUnique(m.Unique)), blob(m.Body))
}

// admit makes a stored message claimable.
func (k *work) admit(t *topic, n *newcomer) (err error) {
	switch {
	case n.wait > 0:
		return k.close(n.seq, k.now+n.wait, t.number, cmp.Or(n.hash, noKey))
	case n.lane == 0:
		k.claimable(t.number)
		_, err = k.db.exec(insertSlot, t.number, n.rank, n.seq)
	default:
		if k.active != nil {
			k.active[n.hash] = n.lane
		}
		if n.alone {
			k.claimable(t.number)
			_, err = k.db.exec(insertLaneSlot, t.number, n.rank, n.seq, n.lane)
		}
	}
	return err
}

// forgetRetained makes room for a message whose id an acked one has, if that
// need not be known any more.
func (k *work) forgetRetained(eid []byte) (bool, error) {
	cols, ok, err := first(k.db, selectForgotten, eid, k.now)
	if err != nil || !ok {
		return false, err
	}
	return true, k.forget(cols[0])
}

// outcomes of the calls that are remembered, by what they were.
const (
	ofAppend = 'a'
	ofSettle = 's'
)

const (
	selectOutcome = `SELECT outcome FROM pawl_batch WHERE hour IN (?1, ?1 - 1, ?1 + 1) AND id = ?2`
	insertOutcome = `INSERT INTO pawl_batch (hour, id, outcome) VALUES (?, ?, ?)`
)

// recall returns what the batch came to, if it was here within the last hour.
func (k *work) recall(of byte, batch string) (outcome []byte, known bool, err error) {
	if batch == "" {
		return nil, false, nil
	}
	err = k.db.query(selectOutcome, func(r row) error {
		outcome, known = r.bytes(0), true
		return nil
	}, k.hour(), batchKey(of, batch))
	return outcome, known, err
}

func (k *work) remember(of byte, batch string, outcome func() []byte) error {
	if batch == "" {
		return nil
	}
	_, err := k.db.exec(insertOutcome, k.hour(), batchKey(of, batch), blob(outcome()))
	return err
}

// hour is what outcomes are filed under. Outcomes of this hour and the last are
// remembered, so each for at least an hour; also of the next, in case the clock was set
// back.
func (k *work) hour() int64 { return k.now / time.Hour.Microseconds() }

func batchKey(of byte, batch string) []byte {
	return append([]byte{of}, sqlstore.EncodeID(batch)...)
}
