package postgres

import (
	"context"
	"sync"
	"time"
)

// Retries, delays, holds, pauses, permits, leases, unique keys and marks end at a moment of the
// server's clock. When that is set back, a wait of a second would last until the clock has
// caught up. So each process compares that clock with its own monotonic one, and the first that
// finds a step back moves these moments by as much.

const (
	clockEvery = 4 * time.Second
	// leastStep is the smallest step that counts; a smaller one is waited out.
	leastStep = 5 * time.Second
	// stepBack moves the times that are later than they could be if the clock had not been set
	// back: $1 skew, $2 the step, $3 for how long this process has not looked. The second
	// process that finds the step sees in the row that it was dealt with meanwhile.
	stepBack = `WITH n AS MATERIALIZED (SELECT clock_timestamp() + $1::interval AS at, $2::interval AS step),
e AS MATERIALIZED (INSERT INTO @duty AS d (name, until) SELECT 'clock', n.at FROM n
	ON CONFLICT (name) DO UPDATE SET until = excluded.until
	WHERE d.until < excluded.until - $3::interval OR d.until > excluded.until RETURNING 1),
s AS MATERIALIZED (SELECT n.at, n.step, n.at + n.step - interval '10 seconds' AS late FROM n, e),
l AS (UPDATE @lease l SET until = l.until - s.step FROM s WHERE l.token <= 0 AND l.until > s.late RETURNING 1),
m AS (UPDATE @mark m SET until = m.until - s.step FROM s WHERE m.until > s.at RETURNING 1),
u AS (UPDATE @uniq u SET until = u.until - s.step FROM s WHERE u.until > s.at AND u.until < 'infinity' RETURNING 1),
p AS (UPDATE @topic t SET paused_at = t.paused_at - s.step, pause_until = t.pause_until - s.step
	FROM s WHERE t.pause_until > s.at RETURNING 1),
c AS (UPDATE @claim c SET until = CASE WHEN c.until > s.late THEN c.until - s.step ELSE c.until END,
		ends = CASE WHEN c.ends > s.late THEN c.ends - s.step ELSE c.ends END,
		hard = CASE WHEN c.hard > s.late THEN c.hard - s.step ELSE c.hard END,
		started = CASE WHEN c.started > s.at THEN c.started - s.step ELSE c.started END,
		longer_until = CASE WHEN c.longer_until IS NOT NULL THEN ARRAY(SELECT CASE WHEN x.t > s.late THEN x.t - s.step ELSE x.t END
			FROM unnest(c.longer_until) WITH ORDINALITY x(t, i) ORDER BY x.i) END
	FROM s WHERE c.hard > s.late RETURNING 1)
SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM l), (SELECT count(*) FROM m), (SELECT count(*) FROM c)`
)

// clock is the time of the server's clock when this process last looked.
type clock struct {
	mu   sync.Mutex
	look look
}

type look struct {
	server int64 // µs
	at     time.Time
}

func (c *clock) last() look {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look
}

// step is by how much the server's clock was set back since the look, if it is that now.
func (l look) step(server int64, now time.Time) time.Duration {
	if l.at.IsZero() {
		return 0
	}
	return time.Duration(l.server-server)*time.Microsecond + now.Sub(l.at)
}

// steppedBack reports whether the server's clock was set back since this process last looked.
func (s *upkeep) steppedBack(server int64) bool {
	return s.clock.last().step(server, time.Now()) >= leastStep
}

// watch looks at the server's clock, and deals with a step back.
func (s *upkeep) watch(ctx context.Context) error {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	var server int64
	began := time.Now()
	if err := s.call(ctx, s.back, read(readClock, set(&server, row.micros), s.skewValue())); err != nil {
		return err
	}
	last := s.clock.look
	if step := last.step(server, began); step >= leastStep {
		err := s.within(ctx, s.front, coldSettings, func(t *tx) error {
			return t.run(ctx, read(stepBack, func(row) error { return nil },
				s.skewValue(), intervalValue(step), intervalValue(began.Sub(last.at)+time.Since(began)+leastStep)))
		})
		if err != nil {
			return err
		}
		s.sweeper.cleared(0) // what it saw is later than what is due now
	}
	s.clock.look = look{server, began}
	return nil
}
