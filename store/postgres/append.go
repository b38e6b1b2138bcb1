package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// appender stores messages.
type appender struct {
	*core
	listener *listener
	upkeep   *upkeep
	registry *registry
}

// What the figures count: the column what of tally and total.
const (
	tallyAppended = iota + 1
	tallyAcked
	tallyCancelled
	tallyPurged
	tallyDuplicates
	tallyRetried
	tallyRescues
)

// The parts of a call that are remembered: column part of batch.
const (
	partAppend = iota
	partSolo   // acks of messages that are lanes of their own
	partKeyed  // acks of runs
	partRest   // everything else
)

// inserting is an insert of rows under way.
type inserting struct {
	*rowsOf
	conn    *pgconn.PgConn // of the caller's transaction; nil: one of its own
	batch   []byte
	outcome []byte
	part    int
	late    bool // the transaction may commit long after
	lost    map[int]string
	stored  bool // the topics were there
	stop    int  // why nothing was done, or is to be taken back; 0: neither
	// done tells the meter the receipts of the stored messages, or nil.
	done func([]store.Receipt)
}

// steps are the statements; afterwards lost has the messages that were not stored.
func (in *inserting) steps(s *core, checkDue bool) group {
	if len(in.id) == 0 {
		in.stored = true
		return in.remember(s, in.outcome)
	}
	var g group
	if in.keyed {
		g = append(g, do(shareOrder, s.orderClass(), int4Array(in.topics)))
	}
	gen := int32(0)
	if in.late {
		gen = again
	}
	check := in.lookBack(s)
	in.stored, in.stop = false, 0
	each := func(r row) error {
		switch i := r.int4(0); {
		case i == 0: // it comes first, at every try
			in.lost, in.stored, in.stop = map[int]string{}, true, 0
		case i < 0:
			in.stop = -i
		case !r.null(1):
			in.lost[i] = r.messageID(1)
		case in.after[slices.Index(in.index, int32(i))] > 0:
			in.stop = stopOneByOne
		default:
			in.stop = max(in.stop, stopAnew)
		}
		return nil
	}
	if in.part == partAppend && in.plain() {
		return append(g, read(insertPlain, each, bytesArray(in.id), bytesArray(in.body), int4Value(in.topics[0]),
			int2Value(in.prio[0]),
			s.skewValue(), bytesValue(in.batch), bytesValue(in.outcome), int4Value(gen),
			boolValue(in.late)))
	}
	sql := insertFresh
	if in.unique || in.named {
		sql = insertAny
	}
	g = append(g, read(sql, each, int4Array(in.index), int4Array(in.topic), int2Array(in.prio), int8Array(in.lane),
		bytesArray(in.key),
		bytesArray(in.id), boolArray(in.given), int4Array(in.after), bytesArray(in.ukey), int8Array(in.ufor),
		textArray(in.meta),
		bytesArray(in.body), int8Array(in.delay), int4Array(in.topics), s.skewValue(), bytesValue(in.batch),
		bytesValue(in.outcome),
		int4Value(gen), int2Value(int16(in.part)), boolValue(in.late), boolValue(in.keyed && checkDue)))
	return append(g, check...)
}

// stopped is why the statements did nothing, or are to be taken back; nil if neither.
func (in *inserting) stopped() error { return stops[in.stop] }

// decides reports whether the transaction may have to be taken back although all went well.
func (in *inserting) decides() bool { return in.unique || in.named }

// lookBack looks again at the ids that the caller gave. Those that the last try found are
// already accounted for, even if they exist twice. Emitted messages need no such look: the ack
// that emits them happens once.
func (in *inserting) lookBack(s *core) group {
	if in.part == partRest {
		return nil
	}
	var ids [][]byte
	for n, i := range in.index {
		if _, lost := in.lost[int(i)]; in.given[n] && in.after[n] == 0 && !lost {
			ids = append(ids, in.id[n])
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return group{read(whatIsBack, func(row) error {
		in.stop = stopAnew
		return nil
	}, bytesArray(ids), s.skewValue())}
}

// check returns an error if the rows did not go where they should.
func (in *inserting) check(s *core) error {
	if in.stored {
		return nil
	}
	s.topics.forget()
	return &store.Error{Op: "append", Code: store.ErrSchema, Err: errors.New("a topic is gone"),
		Hint: "was the schema created again? repeat the call"}
}

// remember is the statement that keeps the outcome of an append, if it is to be kept.
func (in *inserting) remember(s *core, outcome []byte) group {
	if in.batch == nil {
		return nil
	}
	return group{do(insertBatch, in.batch, int2Value(partAppend), bytesValue(outcome), s.skewValue())}
}

// Append implements [store.Store].
func (s *appender) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return s.appendIn(ctx, nil, batch)
}

// appendIn appends in the transaction that is open on c; in one of its own where c is nil.
func (s *appender) appendIn(ctx context.Context, c *pgconn.PgConn,
	batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	ctx, done, err := s.enter(ctx, "append")
	if err != nil {
		return nil, err
	}
	defer done()
	if c != nil {
		if err := s.usable(ctx, c); err != nil {
			return nil, err
		}
	}
	in, err := s.inserting(ctx, batch, receipts)
	if err != nil {
		return nil, s.fail("append", err)
	}
	in.conn, in.late = c, c != nil
	var stored []store.Receipt
	defer func() { in.done(stored) }()
	err = s.insert(ctx, in)
	if err == nil {
		in.answer(receipts)
		stored = receipts
	} else if errors.Is(err, errOneByOne) {
		err = s.appendOneByOne(ctx, batch, receipts, in)
	}
	switch {
	case err == nil:
		if c == nil {
			s.appended(in)
		}
		return receipts, nil
	case isRepeated(err):
		return s.firstReceipts(ctx, in)
	case errors.Is(err, errStrict):
		return nil, &store.Error{Op: "append", Code: store.ErrInvalid, Err: err,
			Hint: "begin it with isolation READ COMMITTED"}
	}
	return nil, s.fail("append", err)
}

// inserting makes rows of a batch, its topics being on record.
func (s *appender) inserting(ctx context.Context, batch store.Batch[pawl.Message],
	receipts []store.Receipt) (*inserting, error) {
	places := map[place]bool{}
	for i := range batch.Items {
		if receipts[i].Err == nil {
			places[place{batch.Items[i].Topic, batch.Items[i].Priority}] = true
		}
	}
	if err := s.registry.ensure(ctx, places); err != nil {
		return nil, err
	}
	done, err := s.registry.meter.Admit(ctx, s.registry.meterLook(ctx), batch.Items, receipts)
	if err != nil {
		return nil, err
	}
	if !s.topics.used.Load() {
		s.topics.used.Store(true)
	}
	in := &inserting{rowsOf: &rowsOf{}, batch: batchID(batch.ID), done: done}
	for i := range batch.Items {
		if m := &batch.Items[i]; receipts[i].Err == nil {
			t := s.topics.named(m.Topic)
			if t == nil {
				done(nil)
				return nil, unexpected("no topic " + m.Topic)
			}
			in.add(i+1, t, m, receipts[i].ID, m.ID != "")
		}
	}
	if in.batch != nil {
		in.outcome = sqlstore.EncodeReceipts(receipts)
	}
	return in, nil
}

// insertTries is how often an insert is tried while ids come in between: each try
// sees those that stopped the one before.
const insertTries = 10

// run runs steps on the connection of a caller's transaction, or in one of their own.
func (s *appender) run(ctx context.Context, c *pgconn.PgConn, steps ...step) error {
	switch {
	case len(steps) == 0:
		return nil
	case c == nil:
		return s.call(ctx, s.front, steps...)
	}
	return s.savepoint(ctx, c, func(run func(...step) error) error {
		return run(slices.Concat(group{do(setSavepoint)}, steps, group{do(release)})...)
	})
}

// insert stores rows in one transaction. Delayed messages that are due join their lane first.
func (s *appender) insert(ctx context.Context, in *inserting) error {
	checkDue := true
	for n := 1; ; n++ {
		err := s.try(ctx, in, checkDue)
		switch {
		case err == nil:
			return in.check(s.core)
		case errors.Is(err, errDue) && checkDue:
			checkDue = false
			if err := s.upkeep.promote(ctx); err != nil {
				return err
			}
		case cameBetween(err) && n < insertTries && ctx.Err() == nil:
		default:
			return err
		}
	}
}

// try is one try of insert.
func (s *appender) try(ctx context.Context, in *inserting, checkDue bool) error {
	if !in.decides() {
		return cmp.Or(s.run(ctx, in.conn, in.steps(s.core, checkDue)...), in.stopped())
	}
	if in.conn == nil {
		return s.within(ctx, s.front, nil, func(t *tx) error {
			return cmp.Or(t.run(ctx, in.steps(s.core, checkDue)...), in.stopped())
		})
	}
	return s.savepoint(ctx, in.conn, func(run func(...step) error) error {
		err := run(append(group{do(setSavepoint)}, in.steps(s.core, checkDue)...)...)
		if err = cmp.Or(err, in.stopped()); err == nil {
			err = run(do(release))
		}
		return err
	})
}

func (in *inserting) answer(receipts []store.Receipt) {
	for i, first := range in.lost {
		receipts[i-1].DuplicateOf = first
	}
}

// appended notifies waiting claimers.
func (s *appender) appended(in *inserting) {
	for _, d := range in.delay {
		if d > 0 {
			s.listener.news.alarmMicros(d)
		}
	}
	s.listener.wake(in.topics...)
}

// appendOneByOne is for batches in which the outcome of one message depends on that of another
// in a way that a single statement cannot decide: the same id twice, and the first of them lost
// its unique key.
func (s *appender) appendOneByOne(ctx context.Context, batch store.Batch[pawl.Message], receipts []store.Receipt,
	in *inserting) error {
	each := func(run func(...step) error) error {
		for i := range batch.Items {
			m := &batch.Items[i]
			if receipts[i].Err != nil {
				continue
			}
			one := &inserting{rowsOf: &rowsOf{}, late: in.late}
			one.add(i+1, s.topics.named(m.Topic), m, receipts[i].ID, m.ID != "")
			if err := cmp.Or(run(one.steps(s.core, false)...), one.stopped()); err != nil {
				return err
			}
			receipts[i].DuplicateOf = one.lost[i+1]
		}
		return run(in.remember(s.core, sqlstore.EncodeReceipts(receipts))...)
	}
	if in.conn == nil {
		return s.within(ctx, s.front, nil, func(t *tx) error {
			return each(func(steps ...step) error { return t.run(ctx, steps...) })
		})
	}
	return s.savepoint(ctx, in.conn, func(run func(...step) error) error {
		err := run(do(setSavepoint))
		if err == nil {
			err = each(run)
		}
		if err == nil {
			err = run(do(release))
		}
		return err
	})
}

// firstReceipts returns the receipts of the first append of a batch.
func (s *appender) firstReceipts(ctx context.Context, in *inserting) ([]store.Receipt, error) {
	receipts := []store.Receipt{}
	err := s.run(ctx, in.conn, readOutcome(in.batch, partAppend, one(&receipts, outcomeOf)))
	return receipts, s.fail("append", err)
}

// readOutcome reads the outcome of a part of a batch.
func readOutcome(batch []byte, part int, each func(row) error) step {
	return read(readBatch, each, batch, int2Value(int16(part)))
}

// outcomeOf reads the receipts of a row of batch.
func outcomeOf(r row) ([]store.Receipt, error) {
	receipts, err := sqlstore.DecodeReceipts(r[0])
	if err != nil {
		return nil, err
	}
	others := r.bytesList(2)
	for n, i := range r.int4s(1) {
		if i > len(receipts) || n >= len(others) {
			return nil, unexpected("a cut outcome")
		}
		receipts[i-1].DuplicateOf = sqlstore.DecodeID(others[n])
	}
	return receipts, nil
}
