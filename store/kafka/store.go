package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl/store"
)

// Store is a store in the topics of a Kafka cluster. Make one with [Open]. It is
// safe for concurrent use.
type Store struct {
	unindexed
	*core
	*side
	*registry
	*inspector
	*letters
}

// core is shared by all parts: the clients of the cluster, and what they know of it.
type core struct {
	cfg         Config
	description store.Description
	tls         *tls.Config // nil: plain connections
	engine      *engine
	ownership   *ownership

	admin   *kadm.Client
	ctx     context.Context // of background work
	stop    context.CancelFunc
	wg      sync.WaitGroup // what begins in it from outside does so by background
	closing atomic.Bool
	gate    sync.RWMutex // between background and the end of it
	ended   bool

	producers  producers
	topics     directory
	group      group
	commits    committer
	health     health
	buffer     buffer
	deadWrites deadWrites
	made       made
	traffic    traffic
	state      state
	dead       deadIndex
	registrar  registrar
}

// New returns a store that has not connected to a broker yet. It reports everything
// that is wrong with c at once.
func New(c Config) (*Store, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	secure, err := c.identity()
	if err != nil {
		return nil, &store.Error{Op: "open", Code: store.ErrInvalid, Err: err}
	}
	e := newEngine((&steadyClock{wall: c.Now}).now, c.Consume)
	e.wall = c.Now
	s := assemble(&core{cfg: c, description: Description(), tls: secure, engine: e, ownership: &ownership{e}})
	s.description.Refuses = s.refuses
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.buffer.limit, s.buffer.stop = c.Produce.BufferBytes, s.ctx.Done()
	s.topics.init(s)
	if err = s.producers.init(s.core); err != nil {
		s.stop()
		return nil, &store.Error{Op: "open", Code: store.ErrInvalid, Err: err}
	}
	s.admin = kadm.NewClient(s.producers.main)
	s.health.log, s.health.hint, s.health.faults = s.cfg.Logger, s.codeOf, map[string]Fault{}
	s.group.init(s)
	s.commits.init(s)
	s.state.init(s)
	s.dead.init(s)
	s.registrar.init(s)
	s.deadWrites.begun = map[*death]time.Time{}
	s.wg.Go(s.deadWriteLoop)
	s.wg.Go(s.logLoop)
	s.wg.Go(s.dead.expireLoop)
	return s, nil
}

// assemble makes the parts of a store, each with those that it asks.
func assemble(c *core) *Store {
	s := &Store{core: c, side: &side{core: c}, registry: &registry{core: c}, inspector: &inspector{core: c},
		letters: &letters{core: c}}
	s.side.registry, s.registry.side = s.registry, s.side
	s.inspector.side, s.inspector.registry, s.inspector.letters = s.side, s.registry, s.letters
	s.letters.inspector, s.letters.side = s.inspector, s.side
	return s
}

// Open returns a store whose brokers answer. The context bounds the opening only.
func Open(ctx context.Context, c Config) (*Store, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := s.ping(ctx, "open"); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Ping reports whether a broker answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.usable(ctx, "ping"); err != nil {
		return err
	}
	return s.ping(ctx, "ping")
}

func (s *core) ping(ctx context.Context, op string) error {
	if err := s.producers.main.Ping(ctx); err != nil {
		return s.explain(op, err)
	}
	return nil
}

const openTimeout = 10 * time.Second

// usable returns why a call cannot be served at all.
func (s *core) usable(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &store.Error{Op: op, Err: err}
	}
	if s.closing.Load() {
		return &store.Error{Op: op, Code: store.ErrClosed}
	}
	return nil
}

// Close implements [store.Store]. Acks are committed, and records on their way to the brokers
// get [Producing.CloseWait] to arrive. The next owners of the partitions claim messages that
// are still leased again.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return nil
	}
	s.engine.shutDown()
	s.group.leave()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Produce.CloseWait)
	defer cancel()
	err := s.producers.flush(ctx)
	if err != nil {
		left, _ := s.producers.buffered()
		s.made.left.Store(left)
	}
	s.gate.Lock()
	s.ended = true
	s.gate.Unlock()
	s.stop()
	s.wg.Wait()
	s.registrar.close()
	s.producers.close()
	if err != nil {
		err = fmt.Errorf("%d records were still on their way to the brokers: %w", s.made.left.Load(), err)
		return &store.Error{Op: "close", Code: store.ErrUnavailable, Err: err,
			Hint: "they are perhaps stored; who appended them was told so"}
	}
	return nil
}

// background runs do until it returns; Close waits for it. It does nothing and returns
// false when Close is waiting already: a call that began earlier may get here that
// late. What is in the group itself needs no leave.
func (s *core) background(do func()) bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if !s.ended {
		s.wg.Go(do)
	}
	return !s.ended
}

func (e *engine) shutDown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isClosed = true
	if e.alarm != nil {
		e.alarm.Stop()
	}
}

// Describe implements [store.Describer].
func (s *Store) Describe() store.Description { return s.description }

// Description says which capabilities this backend keeps.
func Description() store.Description {
	kept := func(note string) store.Support { return store.Support{Kept: true, Note: note} }
	refused := func(note string) store.Support { return store.Support{Note: note} }
	return store.Description{
		Name: "kafka", URL: "kafka://HOST:PORT",
		Durability: "acks=all, as far as replication and min.insync.replicas of the topic go; acks are committed every second: finished work of the last one is repeated after a crash",
		Capabilities: store.Capabilities{
			store.CanSurvive:    kept("work that was finished in the last commit interval is repeated after a crash"),
			store.CanProcesses:  kept("a consumer group"),
			store.CanAnyProcess: refused("a message is claimed and settled by the process that has its partition"),
			store.CanExclusive:  kept("per assignment; not across a rebalance that timed out"),
			store.CanDeadline: kept(
				"within the process that has the partition; one that hangs as a whole is evicted by the group"),
			store.CanPriority: refused("a log is read in its order"),
			store.CanDelay: refused(
				"a log is read in its order; a retry or a hold waits in its lane, within the process"),
			store.CanUnique:     refused("the broker compares nothing; consumers can recognise ids"),
			store.CanEmitAtomic: refused("what is emitted is produced before the ack, under derived ids"),
			store.CanAttempts:   refused("within the process; what may have killed it is committed"),
			store.CanDeadLetters: kept(
				"in a topic of their own, for as long as its retention; ids are compared with those of other dead letters only"),
			store.CanResolve: refused(
				"a letter keeps its text, and a log has no place for attempts of earlier deliveries"),
			store.CanLookup: refused("no index by id; a message can be read by its offset"),
			store.CanTopics: kept("settings and pauses are in the state; nothing is retained for looking it up"),
			store.CanRemove: refused("a log is removed with the tools of the brokers"),
			store.CanFigures: refused(
				"what offsets tell: markers of transactions count, and what other processes lease is waiting"),
			store.CanTxAppend: refused("there is no transaction to share with the caller's data"),
			store.CanRepeatBatch: refused(
				"what the client sends again by itself is stored once; what a caller repeats is there twice, with its id"),
			store.CanWake:    kept("a fetch waits at the broker"),
			store.CanState:   kept("a log of requests in a topic, which every process reads"),
			store.CanMarks:   refused("a log has no index: a value by key needs a database"),
			store.CanPace:    refused("a log has no index: a rate by key needs a database"),
			store.CanBound:   refused("a topic is a log, of which the broker keeps what its retention says, finished or not"),
			store.CanResults: refused("a consumer group reads a topic in its order, and its position is the cursor"),
		},
	}
}
