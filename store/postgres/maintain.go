package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// upkeep finds due messages and the work of dead workers, and removes rows that are no longer
// needed.
type upkeep struct {
	*core
	listener *listener
	registry *registry
	sweeper  sweeper
	tracker  tracker
	clock    clock
}

// The chores are done by one process at a time; a row says which, and until when: later than
// any process says if the server's clock was set back. They keep the tables small whose rows
// live and die with every message; an autovacuum that looks once a minute is too late for
// those.
const (
	takeDuty = `INSERT INTO @duty AS d (name, until) VALUES ('chores', clock_timestamp() + interval '25 seconds')
		ON CONFLICT (name) DO UPDATE SET until = excluded.until
		WHERE d.until < clock_timestamp() OR d.until > excluded.until + interval '1 second' RETURNING 1`
	foldTallies = `
WITH d AS (DELETE FROM @tally WHERE ctid = ANY (ARRAY(SELECT ctid FROM @tally LIMIT 50000)) RETURNING topic, what, n, at),
i AS (INSERT INTO @total AS t (topic, what, n, at)
	SELECT topic, what, sum(n)::bigint, max(at) FROM d GROUP BY topic, what ORDER BY topic, what
	ON CONFLICT (topic, what) DO UPDATE SET n = t.n + excluded.n, at = greatest(t.at, excluded.at))
SELECT count(*) FROM d`
	purgeBatches = `WITH d AS (DELETE FROM @batch WHERE ctid = ANY (ARRAY(SELECT ctid FROM @batch
		WHERE at < (SELECT clock_timestamp() + $1::interval - interval '70 minutes') LIMIT 5000)) RETURNING 1) SELECT count(*) FROM d`
	// purgeUniques looks again at the rows that it deletes: another message may have taken the
	// key while it waited for the row.
	purgeUniques = `WITH d AS (DELETE FROM @uniq WHERE ctid = ANY (ARRAY(SELECT ctid FROM @uniq
		WHERE until < (SELECT clock_timestamp() + $1::interval) AND until < 'infinity' LIMIT 5000))
			AND until < (SELECT clock_timestamp() + $1::interval) AND until < 'infinity' RETURNING 1) SELECT count(*) FROM d`
	purgeAcked = `WITH d AS (DELETE FROM @acked WHERE ctid = ANY (ARRAY(SELECT ctid FROM @acked
		WHERE until < (SELECT clock_timestamp() + $1::interval) LIMIT 5000)) RETURNING 1) SELECT count(*) FROM d`
	// purgeTried forgets attempts of messages that are gone: $1 after which.
	purgeTried = `
WITH c AS MATERIALIZED (SELECT t.seq, t.lane FROM @tried t WHERE t.seq > $1::bigint ORDER BY t.seq LIMIT 2000),
g AS MATERIALIZED (SELECT c.seq FROM c WHERE NOT EXISTS (SELECT FROM @msg m WHERE m.lane = c.lane AND m.seq = c.seq)
	AND NOT EXISTS (SELECT FROM @acked a WHERE a.seq = c.seq)),
t AS (DELETE FROM @tried WHERE seq = ANY (ARRAY(SELECT seq FROM g))),
a AS (DELETE FROM @attempt WHERE seq = ANY (ARRAY(SELECT seq FROM g)))
SELECT max(seq), count(*) FROM c`
	deadTuples = `SELECT coalesce(n_dead_tup, 0), coalesce(n_live_tup, 0) FROM pg_stat_user_tables WHERE schemaname = $1::text AND relname = 'msg'`
)

const (
	choreEvery = 10 * time.Second
	tidyEvery  = time.Second
)

// maintain runs until the store ends.
func (s *upkeep) maintain() {
	last := time.Now().Add(-choreEvery / 2)
	after := int64(0)
	for s.listener.pause(tidyEvery + rand.N(tidyEvery/4)) {
		s.flushClaims()
		s.registry.refreshTopics()
		if !s.cfg.NoChores && time.Since(s.clock.last().at) > clockEvery {
			_ = s.watch(s.ctx) // it is looked at again
		}
		if s.cfg.NoChores || time.Since(last) < choreEvery+rand.N(choreEvery/2) {
			continue
		}
		last = time.Now()
		after = s.chores(after)
	}
}

// chores does one round, if this process has the duty. A chore that fails is
// done in a later round.
func (s *upkeep) chores(after int64) int64 {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	mine := false
	err := s.call(ctx, s.back, read(takeDuty, func(row) error {
		mine = true
		return nil
	}))
	if err != nil || !mine {
		return after
	}
	for _, sql := range []string{purgeBatches, purgeUniques, purgeMarks, purgeAcked} {
		s.purgeAll(ctx, sql, 5000, s.skewValue())
	}
	s.purgeAll(ctx, purgeDeaths, 5000)
	s.purgeAll(ctx, foldTallies, 50_000)
	if next, err := s.tidyTried(ctx, after); err == nil {
		after = next
	}
	_ = s.vacuum(ctx)
	return after
}

// purgeAll repeats a chore until it had less to do than it could.
func (s *upkeep) purgeAll(ctx context.Context, sql string, most int64, args ...[]byte) {
	for range 200 {
		n := int64(0)
		err := s.within(ctx, s.front, coldSettings, func(t *tx) error {
			return t.run(ctx, read(sql, set(&n, row.int8), args...))
		})
		if err != nil || n < most {
			return
		}
	}
}

func (s *upkeep) tidyTried(ctx context.Context, after int64) (next int64, err error) {
	err = s.call(ctx, s.back, read(purgeTried, func(r row) error {
		if next = r.int8(0); r.int8(1) < 2000 {
			next = 0 // from the beginning again
		}
		return nil
	}, int8Value(after)))
	return next, err
}

// vacuum cleans the tables that change with every message. It never truncates: that would lock
// everybody out for a moment. It may take minutes, so it has a connection of its own: a pool
// may have one only.
func (s *upkeep) vacuum(ctx context.Context) error {
	conn, done, err := s.ownConn(ctx)
	if err != nil {
		return err
	}
	defer done()
	tables := []string{"slot", "lease", "claim", "tally"}
	if s.bloated(ctx, conn.PgConn()) {
		tables = append(tables, "msg")
	}
	if !s.cfg.PollOnly {
		if _, err := conn.PgConn().Exec(ctx, "SET statement_timeout = 0").ReadAll(); err != nil {
			return err
		}
	}
	for _, t := range tables {
		sql := "VACUUM (SKIP_LOCKED, INDEX_CLEANUP on, TRUNCATE off) " + s.cfg.Schema + "." + t
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// bloated reports whether the messages' table is worth a vacuum now.
func (s *upkeep) bloated(ctx context.Context, c *pgconn.PgConn) bool {
	var dead, live int64
	err := s.send(ctx, c, group{read(deadTuples, func(r row) error {
		dead, live = r.int8(0), r.int8(1)
		return nil
	}, textValue(s.cfg.Schema))})[0]
	return err == nil && dead > 100_000 && dead > live/5
}
