package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// keyLock is the key of the state by which processes take turns in changing dead
// letters.
const keyLock = "lock/dead"

// staleLock is how long after its last change the holder of the lock is presumed dead.
// No clocks are compared: a waiter counts from when it last saw a change.
const staleLock = 10 * time.Second

// registrar changes the logs of dead letters: one process at a time, a transaction at a
// time, so that what it has read there is so until it has written. The lock alone would
// not fence a process that was suspended while it held it; the brokers do: all use one
// transactional id, and a process that takes the lock over gets a new epoch of that id
// before it reads anything. That aborts what the previous holder had begun, and keeps it
// from committing later. So what was read stays valid.
type registrar struct {
	s  *Store
	me string // in the lock

	mu     sync.Mutex
	client *kgo.Client
	renew  time.Duration // between renewals by the holder of the lock
}

func (g *registrar) init(s *Store) { g.s, g.me, g.renew = s, pawl.NewID(), staleLock/4 }

// change writes the records that build returns in one transaction. Build is called
// while no other process changes anything.
func (g *registrar) change(ctx context.Context, op string, build func() ([]*kgo.Record, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	held, err := g.lock(ctx)
	if err != nil {
		return err
	}
	stop := g.keep(ctx, held)
	shown := true
	defer func() {
		if held = stop(); shown {
			g.unlock(ctx, held)
		}
	}()
	if err := g.fence(ctx, op); err != nil {
		return err
	}
	for again := false; ; again = true {
		records, err := build()
		if err != nil || len(records) == 0 {
			return err
		}
		if err := g.commit(ctx, op, records); err != nil {
			return err
		}
		// Brokers answer when the end of a transaction is certain, and show what is in it a
		// moment later. The next holder of the lock must see it; if it cannot be made
		// visible, the lock is left to go stale.
		err = g.s.dead.catchUp(ctx, records)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errAborted):
			shown = false
			g.s.cfg.Logger.Warn("a change of dead letters is not shown yet", "error", err)
			return nil
		case again:
			return unavailable(op, err)
		}
	}
}

// errAborted: a transaction was aborted although its commit was answered with success. The
// client (franz-go 1.22.2, 1.22.3) does so if it writes to a topic for the first time and all
// is acknowledged before it has stored the topic's partitions, in which it then finds nothing
// to commit. The second attempt finds them.
var errAborted = errors.New("the transaction was aborted, and nothing is changed")

// lock takes the lock. The caller holds mu.
func (g *registrar) lock(ctx context.Context) (store.Entry, error) {
	var seen int64
	var since time.Time
	for {
		e, err := g.s.GetState(ctx, keyLock)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return e, err
		}
		if e.Version != seen {
			seen, since = e.Version, time.Now()
		}
		if len(e.Value) == 0 || time.Since(since) > staleLock {
			if e.Writer != g.me {
				g.discard() // another epoch of the transactional id
			}
			e, err = g.s.PutState(ctx, keyLock, []byte(g.me), e.Version, g.me)
			if !errors.Is(err, store.ErrConflict) {
				return e, err
			}
			continue
		}
		if store.Sleep(ctx, 20*time.Millisecond) != nil {
			return e, &store.Error{Op: "wait for " + keyLock, Err: ctx.Err(),
				Hint: "another process changes dead letters"}
		}
	}
}

// keep renews the lock until the function it returns is called, which returns the lock
// as it is then. Another process may have taken it by now: then the brokers refuse the
// commit.
func (g *registrar) keep(ctx context.Context, held store.Entry) (stop func() store.Entry) {
	until, over := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for store.Sleep(until, g.renew) == nil {
			held = g.renewed(ctx, held)
		}
	})
	return func() store.Entry {
		over()
		renewing.Wait()
		return held
	}
}

// renewed changes the lock without giving it away. It is not interrupted: a holder that
// does not know the version it wrote cannot give the lock back.
func (g *registrar) renewed(ctx context.Context, held store.Entry) store.Entry {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCommit)
	defer cancel()
	e, err := g.s.PutState(ctx, keyLock, []byte(g.me), held.Version, g.me)
	if err != nil { // an earlier one may have been written although its call failed
		e, err = g.s.GetState(ctx, keyLock)
	}
	if err != nil || e.Writer != g.me {
		return held
	}
	return e
}

// fence makes sure that no earlier holder of the lock can commit any more. The caller
// holds mu and the lock.
func (g *registrar) fence(ctx context.Context, op string) error {
	if g.client != nil {
		return nil // no other process had it in between
	}
	client, err := kgo.NewClient(append(g.s.producerOptions(),
		kgo.ProducerBatchMaxBytes(max(g.s.cfg.Produce.BatchBytes, maxDeadBytes)),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil), g.s.core, true}),
		kgo.TransactionalID(g.s.transactionalID()), kgo.TransactionTimeout(transactionTimeout),
		kgo.ProducerLinger(0))...)
	if err != nil {
		return &store.Error{Op: op, Code: store.ErrInvalid, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, g.s.cfg.Produce.Timeout)
	defer cancel()
	if _, _, err := client.ProducerID(ctx); err != nil {
		client.Close()
		return g.s.explain(op, err)
	}
	g.client = client
	return nil
}

// unlock gives the lock back. If that fails it goes stale.
func (g *registrar) unlock(ctx context.Context, held store.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCommit)
	defer cancel()
	if _, err := g.s.PutState(ctx, keyLock, nil, held.Version, g.me); err != nil {
		g.discard()
	}
}

// commit produces records in one transaction. The caller holds mu and the lock.
func (g *registrar) commit(ctx context.Context, op string, records []*kgo.Record) error {
	if err := g.client.BeginTransaction(); err != nil {
		g.discard()
		return g.s.explain(op, err)
	}
	results, failed := g.produce(ctx, records)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.s.cfg.Produce.Timeout)
	defer cancel()
	if failed != nil {
		for _, r := range results {
			g.s.forget(r.Record.Topic, r.Err)
		}
		_ = g.client.AbortBufferedRecords(end)
		_ = g.client.EndTransaction(end, kgo.TryAbort)
		g.discard()
		return g.s.explain(op, failed)
	}
	if err := g.client.EndTransaction(end, kgo.TryCommit); err != nil {
		g.discard()
		return unavailable(op, err) // the outcome is unknown
	}
	return nil
}

// produce sends records in portions that any topic takes as one batch. A larger record is
// sent alone: its letter was accepted once, so the rewritten one may fit, too. The brokers
// decide.
func (g *registrar) produce(ctx context.Context, records []*kgo.Record) (results kgo.ProduceResults, failed error) {
	for len(records) > 0 && failed == nil {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size+weight(records[n]) <= int(g.s.cfg.Produce.BatchBytes)) {
			size += weight(records[n])
			n++
		}
		for _, result := range g.client.ProduceSync(ctx, records[:n]...) {
			results = append(results, result)
			if r := result.Record; result.Err != nil && failed == nil {
				failed = fmt.Errorf("message %s, to topic %s: %w", idIn(r.Headers), r.Topic, result.Err)
			}
		}
		records = records[n:]
	}
	return results, failed
}

// transactionTimeout is after how long the brokers give up the transaction of a
// process that died in it, if nobody takes the lock over. Until then consumers
// wait behind it.
const transactionTimeout = 10 * time.Second

// discard lets go of the client, and so of its epoch. The caller holds mu.
func (g *registrar) discard() {
	if g.client != nil {
		g.client.Close()
		g.client = nil
	}
}

func (g *registrar) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.discard()
}

// transactionalID is that of all registrars.
func (s *core) transactionalID() string { return s.wire(s.cfg.StateTopic) + ".dead" }
