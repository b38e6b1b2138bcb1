package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// deciding settles what [sqlstore.Decide] decides: retries, releases, deaths, holds, acks
// that emit or write marks, and everything else in one run with one of these.
type deciding struct {
	*settler
	*settling
	careful  bool // runs one by one
	checkDue bool

	at       int64
	live     map[int64]bool   // claims, by fence
	gone     map[held]bool    // lanes that were given back, with their fence
	locked   map[held]latch   // lanes of keys that are held, with their token
	messages map[int64]*found // by seq
	refusals []store.Refusal  // of this part
	ended    []pawl.Token     // messages that are settled, and lanes that are over
	over     map[held]bool    // runs that ended, by lane and fence
	written  []*writing
	delays   []int64      // microseconds until something is due
	inserted []*inserting // what was emitted
	marks    []pawl.Mark  // of what was acked, in order
}

type latch struct {
	first, last int64
	run         []int64 // all of it, where other numbers are in between
}

// has reports whether a message is of the run.
func (l *latch) has(seq int64) bool {
	return seq >= l.first && seq <= l.last && (l.run == nil || slices.Contains(l.run, seq))
}

// found is a message to be settled, as its rows have it.
type found struct {
	topic                     int32
	attempts, rescues, lonely int
	throttles                 int
	reason                    string
	tail                      bool // its topic retries at the tail
}

const (
	lockClaims = `SELECT c.fence, c.gone FROM unnest($1::bigint[]) f(fence)
		CROSS JOIN LATERAL (SELECT c.fence, c.gone FROM @claim c WHERE c.fence = f.fence FOR UPDATE) c`
	readFound = `SELECT m.seq, m.topic, t.attempts, t.rescues, t.lonely, t.reason, t.throttles,
			(SELECT p.tail FROM @topic p WHERE p.id = m.topic) FROM unnest($1::bigint[], $2::bigint[]) x(lane, seq)
		CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m
		LEFT JOIN LATERAL (SELECT * FROM @tried t WHERE t.seq = x.seq OFFSET 0) t ON true`
	readClock    = `SELECT clock_timestamp() + $1::interval`
	shortLocks   = `SET LOCAL lock_timeout = '300ms'`
	shortestLock = `SET LOCAL lock_timeout = '50ms'`
)

// settle is the transaction.
func (w *deciding) settle(ctx context.Context, t *tx) error {
	if err := w.look(ctx, t); err != nil {
		return err
	}
	var last group
	if w.careful {
		if err := w.oneByOne(ctx, t); err != nil {
			return err
		}
	} else {
		all := &writing{at: w.at}
		for _, r := range w.rest {
			w.settleRun(all, r)
		}
		last = w.steps(all)
	}
	last = append(last, w.markSteps()...)
	if w.batch != nil {
		last = append(last, do(insertBatch, w.batch, int2Value(partRest),
			bytesValue(sqlstore.EncodeRefusals(w.refusals)), w.skewValue()))
	}
	return cmp.Or(t.run(ctx, last...), w.stopped())
}

// stopped returns the error that kept a message from being emitted.
func (w *deciding) stopped() error {
	for _, in := range w.inserted {
		if err := in.stopped(); err != nil {
			return err
		}
	}
	return nil
}

// look locks claims and lanes, each in their order, and reads the messages.
func (w *deciding) look(ctx context.Context, t *tx) error {
	var fences, lanes, seqs []int64
	var leased []held
	emits := false
	for _, r := range w.rest {
		if r.Lane > 0 {
			fences = append(fences, r.Fence)
		} else {
			leased = append(leased, held{r.Lane, r.Fence})
		}
		for _, i := range r.Items {
			lanes, seqs = append(lanes, r.Lane), append(seqs, w.items[i].Token.Seq)
			emits = emits || len(w.items[i].Emit) > 0
		}
	}
	slices.Sort(fences)
	fences = slices.Compact(fences)
	locks, tokens := sortedLanes(leased)
	w.live, w.gone, w.locked = map[int64]bool{}, map[held]bool{}, map[held]latch{}
	w.messages, w.over = map[int64]*found{}, map[held]bool{}
	w.refusals, w.ended, w.delays, w.inserted, w.written, w.marks = nil, nil, nil, nil, nil, nil
	var g group
	repeated := false
	if w.batch != nil {
		g = append(g, readOutcome(w.batch, partRest, func(row) error {
			repeated = true
			return nil
		}))
	}
	if emits {
		g = append(g, do(shortLocks))
	}
	if len(fences) > 0 {
		g = append(g, read(lockClaims, w.readClaim, int8Array(fences)))
	}
	if len(locks) > 0 {
		g = append(g, read(lockHeld, w.readLane, int8Array(locks), int8Array(tokens)))
	}
	g = append(g, read(readFound, w.readMessage, int8Array(lanes), int8Array(seqs)),
		read(readClock, set(&w.at, row.micros), w.skewValue()))
	if err := t.run(ctx, g...); err != nil || !repeated {
		return err
	}
	return errRepeated
}

// lockHeld is lockLanes with the token, for lanes that two tokens name.
const lockHeld = `SELECT x.lane, x.token, x.first, x.last, x.run FROM unnest($1::bigint[], $2::bigint[]) s(lane, token)
	CROSS JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = s.lane AND l.token = s.token FOR UPDATE) x`

func (w *deciding) readClaim(r row) error {
	fence := r.int8(0)
	w.live[fence] = true
	for _, lane := range r.int8s(1) {
		w.gone[held{lane, fence}] = true
	}
	return nil
}

func (w *deciding) readLane(r row) error {
	w.locked[held{r.int8(0), r.int8(1)}] = latch{r.int8(2), r.int8(3), r.int8s(4)}
	return nil
}

func (w *deciding) readMessage(r row) error {
	w.messages[r.int8(0)] = &found{
		topic: r.id(1), attempts: r.int4(2), rescues: r.int4(3), lonely: r.int4(4), reason: r.text(5),
		throttles: r.int4(6), tail: r.bool(7),
	}
	return nil
}

// oneByOne settles run by run, and refuses those that emit a unique key which another
// transaction holds.
func (w *deciding) oneByOne(ctx context.Context, t *tx) error {
	for _, r := range w.rest {
		one := &writing{at: w.at}
		before, marks := len(w.refusals), len(w.marks)
		w.settleRun(one, r)
		steps := w.steps(one)
		if len(steps) == 0 {
			continue
		}
		err := t.run(ctx, append(group{do("SAVEPOINT pawl"), do(shortestLock)}, steps...)...)
		if err = cmp.Or(err, w.stopped()); err == nil {
			if err = t.run(ctx, do("RELEASE SAVEPOINT pawl")); err == nil {
				continue
			}
		}
		if stateOf(err) != stateLockTimeout {
			return err
		}
		if err := t.run(ctx, do("ROLLBACK TO SAVEPOINT pawl")); err != nil {
			return err
		}
		w.refusals, w.marks = w.refusals[:before], w.marks[:marks]
		for _, i := range r.Items {
			w.refusals = append(w.refusals, store.Refusal{Index: i, Err: busyKey()})
		}
		w.ended = slices.DeleteFunc(w.ended, func(tok pawl.Token) bool {
			return tok.Lane == r.Lane && tok.Fence == r.Fence
		})
		delete(w.over, held{r.Lane, r.Fence})
	}
	return nil
}

// settleRun settles the items of one run, in the order of the lane, until one
// ends it.
func (w *deciding) settleRun(to *writing, r sqlstore.Run) {
	id := held{r.Lane, r.Fence}
	lane, locked := w.locked[id]
	valid := r.Lane < 0 && locked || r.Lane > 0 && w.live[r.Fence] && !w.gone[id]
	over := false
	for _, i := range r.Items {
		st := &w.items[i]
		seq := st.Token.Seq
		m := w.messages[seq]
		if r.Lane < 0 && !lane.has(seq) {
			m = nil
		}
		if !valid || over || m == nil {
			w.refusals = append(w.refusals, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
			continue
		}
		delete(w.messages, seq) // settled: a second time is too late
		w.ended = append(w.ended, st.Token)
		over = w.settleOne(to, st, m, r.Lane > 0 || seq == lane.last)
	}
	if over {
		w.over[id] = true
	}
}

// settleOne settles one message, and reports whether its run is over. last says that it is
// the last of the run.
func (w *deciding) settleOne(to *writing, st *store.Settlement, m *found, last bool) (over bool) {
	tok := st.Token
	d := sqlstore.Decide(st, sqlstore.Delivery{Attempts: m.attempts, Keyed: tok.Lane < 0, Tail: m.tail, Last: last},
		func(after time.Duration) time.Time { return moment(w.at + micros(after)) })
	if st.Verdict != store.Ack {
		to.try(tok.Lane, tok.Seq, d.Attempts, m.rescues, m.lonely, d.Reason, 0)
	}
	if d.Failed != nil {
		to.fail(tok.Seq, d.Failed, m.throttles)
	}
	switch st.Verdict {
	case store.Ack:
		to.acked.lane, to.acked.seq = append(to.acked.lane, tok.Lane), append(to.acked.seq, tok.Seq)
		w.emit(to, st)
		w.marks = append(w.marks, st.Marks...)
	case store.Dead:
		to.makeDead(tok.Lane, tok.Seq, st.Failure.Kind, d.Reason)
	case store.Retry:
		to.count(m.topic, tallyRetried, 1)
	}
	if d.Delayed {
		after := micros(st.After)
		to.toTail.lane, to.toTail.seq = append(to.toTail.lane, tok.Lane), append(to.toTail.seq, tok.Seq)
		to.toTail.until = append(to.toTail.until, w.at+after)
		w.delays = append(w.delays, after)
	}
	// A lane of its own is gone with its message.
	if d.Ends && (tok.Lane < 0 || !d.Leaves) {
		w.end(to, tok, d.Closed)
	}
	return d.Ends
}

// end ends the lease of a lane, which stays closed for after.
func (w *deciding) end(to *writing, tok pawl.Token, after time.Duration) {
	until := w.at + micros(after)
	if after > 0 {
		w.delays = append(w.delays, micros(after))
	}
	if tok.Lane < 0 {
		if l := w.locked[held{tok.Lane, tok.Fence}]; l.first < l.last {
			to.cut = append(to.cut, tok.Lane)
		}
		if after > 0 {
			to.closed.lane, to.closed.token = append(to.closed.lane, tok.Lane), append(to.closed.token, tok.Fence)
			to.closed.until = append(to.closed.until, until)
		} else {
			to.openLanes, to.openTokens = append(to.openLanes, tok.Lane), append(to.openTokens, tok.Fence)
		}
		return
	}
	if to.leave == nil {
		to.leave = map[int64][]int64{}
	}
	to.leave[tok.Fence] = append(to.leave[tok.Fence], tok.Lane)
	if after > 0 {
		to.put.seq, to.put.until = append(to.put.seq, tok.Seq), append(to.put.until, until)
	} else {
		to.openSolo = append(to.openSolo, tok.Seq)
	}
}

// emit makes rows of what an ack emits.
func (w *deciding) emit(to *writing, st *store.Settlement) {
	if len(st.Emit) == 0 {
		return
	}
	if len(to.emits) == 0 || w.careful {
		to.emits = append(to.emits, &inserting{rowsOf: &rowsOf{}, part: partRest})
	}
	in := to.emits[len(to.emits)-1]
	for j := range st.Emit {
		m := st.Emit[j]
		m.ID = pawl.EmitID(st.ID, j)
		if w.careful && j > 0 {
			in = &inserting{rowsOf: &rowsOf{}, part: partRest}
			to.emits = append(to.emits, in)
		}
		in.add(len(in.id)+1, w.topics.named(m.Topic), &m, m.ID, true)
	}
}

// steps are the statements that write the gathered rows, and append the emitted messages.
func (w *deciding) steps(to *writing) group {
	g := to.steps(w.core)
	w.written = append(w.written, to)
	for _, in := range to.emits {
		g = append(g, in.steps(w.core, w.checkDue)...)
		w.inserted = append(w.inserted, in)
	}
	return g
}

// markSteps are the statements that write the marks of what was acked, in rounds: a statement cannot write a row twice,
// so the second mark of a key is in the second round. All rows are locked in the first one, in their order.
func (w *deciding) markSteps() (g group) {
	var rounds [][]pawl.Mark
	times := map[[2]string]int{}
	for i := range w.marks {
		place := [2]string{w.marks[i].Scope, w.marks[i].Key}
		n := times[place]
		if times[place]++; n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], w.marks[i])
	}
	for _, marks := range rounds {
		receipts := make([]store.MarkReceipt, len(marks))
		for i := range marks {
			receipts[i].Version = backend.NewVersion(&marks[i])
		}
		g = append(g, w.side.markSteps(marks, receipts, func(row) error { return nil })...)
	}
	return g
}

// finish takes over the results of the transaction.
func (w *deciding) finish() {
	w.refused = append(w.refused, w.refusals...)
	slices.SortFunc(w.ended, func(a, b pawl.Token) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Fence, b.Fence))
	})
	for _, tok := range w.ended {
		if tok.Lane > 0 {
			w.upkeep.tracker.ended(tok.Fence, 1)
		} else {
			w.upkeep.tracker.acked(tok.Fence, tok.Lane, 1, w.over[held{tok.Lane, tok.Fence}])
		}
	}
	for _, in := range w.inserted {
		w.appender.appended(in)
	}
	for _, d := range w.delays {
		w.listener.news.alarmMicros(d)
	}
	for _, to := range w.written {
		w.listener.wake(to.woken...)
	}
}
