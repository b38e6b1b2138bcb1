package sqlite

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// phase is when a call has its turn within a transaction. Settlements come
// first, so that no lease ends for want of a turn; claims come last, so that
// they find what the others brought.
type phase int

const (
	toSettle phase = iota
	toManage
	toAppend
	toClaim
)

// call is something to be done in a transaction of the writer.
type call struct {
	op    string
	phase phase
	// do runs within the transaction, with others before and after it. An error
	// takes the transaction back; then each call is done in one of its own, from
	// the beginning. What do refuses without an error it must not have begun.
	do func(*work) error
	// idle, if not nil, tells without a transaction that do would do nothing.
	idle func(*work) (bool, error)
	// weight is how much of a transaction it takes, in messages.
	weight int
	// afterDue: all delayed messages that are due join their lanes before it.
	afterDue bool
	// direct, instead of do, runs between groups and has its own transactions.
	direct func(*writer) error

	state atomic.Int32 // waiting, started or abandoned
	done  chan error
}

const (
	waiting int32 = iota
	started
	abandoned
)

// What shares a transaction is bounded: the last of it waits for the first.
const (
	maxGroup  = 256     // calls
	maxWeight = 20_000  // messages
	perWeight = 4 << 10 // bytes that weigh as much as a message
)

// write has the writer do something, and waits for it. It returns when it is
// durable. A context that ends first takes the call out, unless it has begun:
// then it is a matter of milliseconds, and its outcome is worth the wait.
func (s *core) write(ctx context.Context, c *call) error {
	if s.cfg.ReadOnly {
		return denied(c.op)
	}
	if err := s.usable(ctx, c.op); err != nil {
		return err
	}
	c.done = make(chan error, 1)
	select {
	case s.calls <- c:
	case <-s.closing:
		return closed(c.op)
	case <-ctx.Done():
		return ended(ctx, c.op)
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.state.CompareAndSwap(waiting, abandoned) {
			return ended(ctx, c.op)
		}
		return <-c.done
	case <-s.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return closed(c.op)
		}
	}
}

// manage has the writer do something in the phase toManage, and fails with what do refuses.
func (s *core) manage(ctx context.Context, op string, do func(*work) (refused, err error)) error {
	var refused error
	err := s.write(ctx, &call{op: op, phase: toManage, do: func(k *work) (err error) {
		refused, err = do(k)
		return err
	}})
	return cmp.Or(err, refused)
}

// writer is the one goroutine of a store that writes.
type writer struct {
	*core
	conn    *conn
	topics  *topicCache
	group   []*call // of the next transaction
	weight  int     // of the group
	behind  []*call // put off: much is due before them
	directs []*call
	purger  purger
	queue   *queue
}

// run takes calls until the store is closed.
func (w *writer) run() {
	defer close(w.stopped)
	for {
		w.group, w.weight = w.group[:0], 0
		w.behind = slices.DeleteFunc(w.behind, func(c *call) bool { return c.state.Load() == abandoned })
		if !w.next() {
			return
		}
		w.gather()
		if len(w.group)+len(w.behind) > 0 && !w.onlyIdle() {
			w.commitGroup()
		}
		clear(w.group)
		for _, c := range w.directs {
			if w.group = append(w.group[:0], c); c.state.CompareAndSwap(waiting, started) {
				w.answer(w.group, c.direct(w))
			}
		}
		w.directs = nil
	}
}

// next waits for something to do; false: the store is closed.
func (w *writer) next() bool {
	if len(w.behind) > 0 {
		return !w.isClosing()
	}
	select {
	case c := <-w.calls:
		w.add(c)
		return true
	case <-w.closing:
		return false
	}
}

func (w *writer) add(c *call) {
	if c.direct != nil {
		w.directs = append(w.directs, c)
	} else {
		w.group = append(w.group, c)
		w.weight += c.weight
	}
}

// gather adds what has come in meanwhile.
func (w *writer) gather() {
	for len(w.group) < maxGroup && w.weight < maxWeight {
		select {
		case c := <-w.calls:
			w.add(c)
		default:
			return
		}
	}
}

// onlyIdle answers a group that has nothing to do without a write transaction:
// idle workers do not take the lock from others.
func (w *writer) onlyIdle() bool {
	if len(w.behind) > 0 {
		return false
	}
	for _, c := range w.group {
		if c.idle == nil {
			return false
		}
	}
	k, err := w.work(w.conn, w.topics)
	for _, c := range w.group {
		idle := false
		if err == nil {
			idle, err = c.idle(k)
		}
		if err != nil || !idle {
			return false // the transaction will tell what is wrong
		}
	}
	for _, c := range w.group {
		c.done <- nil
	}
	return true
}

// commitGroup does a group in one transaction, or, if that fails, each call in
// one of its own.
func (w *writer) commitGroup() {
	if err := w.lockDatabase(); err != nil {
		w.answer(w.group, err)
		w.answer(w.behind, err)
		w.behind = nil
		return
	}
	w.gather()
	k, err := w.begin()
	if err == nil {
		err = w.putOff(k)
	}
	w.startGroup()
	if err = w.transact(k, w.group, err); err != nil {
		w.group, w.behind = append(w.group, w.behind...), nil
		w.startGroup()
	}
	if err == nil || len(w.group) == 1 {
		w.answer(w.group, err)
		return
	}
	for i := range w.group {
		one := w.group[i : i+1]
		err := w.lockDatabase()
		if err == nil {
			k, err = w.begin()
			err = w.transact(k, one, err)
		}
		w.answer(one, err)
	}
}

// begin begins the work of a transaction that writes.
func (w *writer) begin() (*work, error) {
	k, err := w.work(w.conn, w.topics)
	if err == nil {
		err = k.followClock()
	}
	return k, err
}

// startGroup takes out who does not wait any more, and puts the others in order.
func (w *writer) startGroup() {
	w.group = slices.DeleteFunc(w.group, func(c *call) bool {
		return c.state.Load() != started && !c.state.CompareAndSwap(waiting, started)
	})
	slices.SortStableFunc(w.group, func(a, b *call) int { return cmp.Compare(a.phase, b.phase) })
}

// putOff lets a part of what is due happen, if there are calls that come after all
// of it. While there is more they are put off to later transactions: so nobody, in
// this process or another, waits for more than a part.
func (w *writer) putOff(k *work) error {
	after := func(c *call) bool { return c.afterDue }
	if len(w.behind) == 0 && !slices.ContainsFunc(w.group, after) {
		return nil
	}
	// Leases that are over stay until the settlements of the group had their turn.
	if k.joining() {
		if err := k.openAll(); err != nil {
			return err
		}
	}
	if k.joining() {
		for _, c := range w.group {
			if c.afterDue {
				w.behind = append(w.behind, c)
			}
		}
		w.group = slices.DeleteFunc(w.group, after)
		return nil
	}
	for len(w.behind) > 0 && len(w.group) < maxGroup && w.weight < maxWeight {
		w.add(w.behind[0])
		w.behind = w.behind[1:]
	}
	return nil
}

// transact does calls in the transaction that has begun, unless that went wrong,
// and ends it.
func (w *writer) transact(k *work, calls []*call, err error) error {
	for _, c := range calls {
		if err != nil {
			break
		}
		err = c.do(k)
	}
	if err == nil {
		err = w.purger.run(k)
	}
	if err == nil {
		err = k.finish()
	}
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	if gone := w.files.check(); gone != nil {
		err = gone // whatever else there is comes of it
	}
	if err != nil {
		// SQLite may have rolled back already; then this fails, and changes nothing.
		_, _ = w.conn.exec("ROLLBACK")
		w.topics.forget()
		return err
	}
	w.wake(k.woken)
	return nil
}

// answer tells callers what their transaction came to.
func (w *writer) answer(calls []*call, err error) {
	for _, c := range calls {
		if isBusy(err) && w.isClosing() {
			c.done <- closed(c.op)
		} else {
			c.done <- wrap(c.op, err)
		}
	}
}

// lockDatabase begins a write transaction. While another process has one it asks
// again and again, in smaller steps than SQLite's own, until it has waited too
// long or nobody wants it any more.
func (w *writer) lockDatabase() error {
	if err := w.files.check(); err != nil {
		return err // before what is written hides it
	}
	w.queue.yield()
	defer w.queue.withdraw()
	since, said := time.Now(), false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		_, err := w.conn.exec("BEGIN IMMEDIATE")
		if err == nil || !isBusy(err) || time.Since(since) > w.cfg.Wait || w.nobodyWaits() {
			return err
		}
		w.queue.announce(since)
		if !said && time.Since(since) > time.Second {
			said = true
			w.cfg.Waiting()
		}
		time.Sleep(pause)
	}
}

// nobodyWaits reports whether every call was abandoned, or the store is being closed.
func (w *writer) nobodyWaits() bool {
	waits := func(c *call) bool { return c.state.Load() != abandoned }
	return w.isClosing() || !slices.ContainsFunc(w.group, waits) && !slices.ContainsFunc(w.behind, waits)
}
