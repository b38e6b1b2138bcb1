// Package postgres keeps messages in PostgreSQL, for any number of processes.
//
// A message is immutable, a slot is its ticket, a claim records who holds what, and a
// lease is the latch of a lane that several messages share. Append only inserts
// (message and slot), so a transaction that stays open blocks no other caller. Lanes
// are resolved by the claim. A message that is a lane of its own is leased by the row
// of its claim alone, which is one row for a thousand of them.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Store keeps messages in a schema of a PostgreSQL database. It is safe for
// concurrent use. Make one with [Open].
type Store struct {
	*core
	*listener
	*upkeep
	*registry
	*inspector
	*migrator
	*appender
	*claimer
	*settler
	*letters
	*side
	*reader
	*outbox
}

// core is shared by all parts: connections, calls over them, and their end.
type core struct {
	cfg         Config
	description store.Description
	secret      string // the password, to keep it out of every text
	exact       bool   // what is due must be found at once, whatever it costs

	// Three pools, so that nothing queues behind what is slower.
	front *pgxpool.Pool // appends and look-ups
	back  *pgxpool.Pool // claims, settles, sweeps, chores
	beat  *pgxpool.Pool // extends

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	calls sync.WaitGroup // background work
	gate  sync.RWMutex   // held while calls.Go may be called
	ended atomic.Bool

	statements     sync.Map // sql → statement
	statementCount atomic.Int64

	topics   topicCache
	database atomic.Pointer[string] // as whichDatabase has it, once it was asked for
}

// assemble makes the parts of a store, each with those that it asks.
func assemble(c *core) *Store {
	s := &Store{core: c, listener: &listener{core: c}, upkeep: &upkeep{core: c}, registry: &registry{core: c},
		inspector: &inspector{core: c}, migrator: &migrator{core: c}}
	s.listener.upkeep = s.upkeep
	s.upkeep.listener, s.upkeep.registry = s.listener, s.registry
	s.registry.listener, s.registry.inspector = s.listener, s.inspector
	s.inspector.upkeep, s.inspector.registry = s.upkeep, s.registry
	s.side = newSide(c, s.inspector, s.upkeep)
	s.appender = &appender{core: c, listener: s.listener, upkeep: s.upkeep, registry: s.registry}
	s.settler = &settler{core: c, listener: s.listener, upkeep: s.upkeep, registry: s.registry, appender: s.appender,
		side: s.side}
	s.claimer = &claimer{core: c, listener: s.listener, upkeep: s.upkeep, registry: s.registry, settler: s.settler,
		floors: newFloors()}
	s.letters = &letters{core: c, listener: s.listener, upkeep: s.upkeep, registry: s.registry, inspector: s.inspector}
	s.reader = &reader{core: c, inspector: s.inspector, registry: s.registry}
	s.outbox = &outbox{core: c, migrator: s.migrator, registry: s.registry}
	return s
}

// Open connects to a database and checks its schema. With [Config.NoCheck] it
// does not connect: the first call does.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := assemble(&core{cfg: cfg, description: Description(), exact: cfg.Skew != nil})
	s.news.init()
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	base, err := s.connConfig()
	if err != nil {
		s.stop()
		return nil, badURL(err)
	}
	s.secret = secretOf(&base.Config)
	half := (cfg.MaxConns - 2) / 2
	for _, p := range []struct {
		pool  **pgxpool.Pool
		conns int
	}{{&s.front, half}, {&s.back, cfg.MaxConns - 2 - half}, {&s.beat, 1}} {
		if *p.pool, err = s.openPool(base, p.conns); err != nil {
			return nil, errors.Join(s.fail("open postgres", err), s.Close())
		}
	}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin makes sure that the schema is there and starts the background work.
func (s *Store) begin(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.cfg.AutoMigrate {
		if _, err := s.MigrateUp(ctx); err != nil {
			return err
		}
	}
	if !s.cfg.NoCheck {
		if err := s.checkSchema(ctx); err != nil {
			return err
		}
	}
	s.background(s.newsLoop)
	s.background(s.maintain)
	return nil
}

// background runs do until it returns; Close waits for it. It does nothing
// after Close.
func (s *core) background(do func()) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if !s.ended.Load() {
		s.calls.Go(do)
	}
}

// Close implements [store.Store]. Calls under way fail.
func (s *Store) Close() error {
	s.gate.Lock()
	again := s.ended.Swap(true)
	s.gate.Unlock()
	if again {
		return nil
	}
	s.finishUp()
	s.stop()
	s.calls.Wait()
	for _, p := range []*pgxpool.Pool{s.front, s.back, s.beat} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}

// enter begins a call: it fails if the store is closed or ctx has ended, and
// bounds the call. The caller calls done when it is over.
func (s *core) enter(ctx context.Context, op string) (_ context.Context, done context.CancelFunc, err error) {
	if s.ended.Load() {
		return nil, nil, &store.Error{Op: op, Code: store.ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, &store.Error{Op: op, Err: err}
	}
	ctx, cancel := s.bounded(ctx)
	unhook := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { unhook(); cancel() }, nil
}

// guard runs do as one call: see enter. Its error becomes a [*store.Error].
func (s *core) guard(ctx context.Context, op string, do func(context.Context) error) error {
	ctx, done, err := s.enter(ctx, op)
	if err != nil {
		return err
	}
	defer done()
	return s.fail(op, do(ctx))
}

// skew is the time that tests add to the server's clock.
func (s *core) skew() time.Duration {
	if s.cfg.Skew == nil {
		return 0
	}
	return s.cfg.Skew()
}

func (s *core) skewValue() []byte { return intervalValue(s.skew()) }

// Describe implements [store.Describer].
func (s *Store) Describe() store.Description { return s.description }

// Description says which capabilities this backend keeps.
func Description() store.Description {
	return store.Description{
		Name: "postgres", URL: "postgres://USER@HOST:PORT/DATABASE",
		Durability: "every call: written to the server's log and flushed (fsync and synchronous_commit as the server has them)",
		Capabilities: sqlstore.Capabilities(map[store.Capability]string{
			store.CanTxAppend: "pgx.Tx, and *sql.Tx of pgx's driver for database/sql",
			store.CanWake:     "LISTEN and NOTIFY; by polling behind a pooler of transactions",
		}),
	}
}

var _ sqlstore.Store = (*Store)(nil)

// unexpected is a result that no statement of this package gives.
func unexpected(what string) error { return fmt.Errorf("unexpected answer of the server: %s", what) }
