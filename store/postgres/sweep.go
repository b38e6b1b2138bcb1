package postgres

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// sweeper remembers when this process last looked for due messages.
type sweeper struct {
	mu       sync.Mutex // held during a sweep
	state    sync.Mutex
	looked   time.Time
	clear    int64 // below this moment nothing was due, when last looked at
	full     time.Time
	suspects map[int32]time.Time // by topic: when a suspect was last looked for in vain
	left     map[int64]time.Time // claims that could not be swept, and until when they are left alone
}

const (
	sweepEvery   = 250 * time.Millisecond
	suspectEvery = 500 * time.Millisecond
	sweepSlack   = 5_000_000 // microseconds: a claim may commit that late
	sweepFull    = 20 * time.Second
	sweepLeft    = 2 * time.Second // how long a claim is left alone that could not be swept
)

// maySuspect reports whether it is time to look for suspects in a topic.
func (w *sweeper) maySuspect(topic int32, exact bool) bool {
	w.state.Lock()
	defer w.state.Unlock()
	return exact || time.Since(w.suspects[topic]) > suspectEvery
}

// sawSuspect notes whether there was one.
func (w *sweeper) sawSuspect(topic int32, there bool) {
	w.state.Lock()
	defer w.state.Unlock()
	switch {
	case there:
		delete(w.suspects, topic)
	case w.suspects == nil:
		w.suspects = map[int32]time.Time{}
		fallthrough
	default:
		w.suspects[topic] = time.Now()
	}
}

// rescued notes that there may be suspects in any topic.
func (w *sweeper) rescued() {
	w.state.Lock()
	defer w.state.Unlock()
	clear(w.suspects)
}

// begin reports whether a look is due, and above which moment.
func (w *sweeper) begin(exact bool) (above int64, due bool) {
	w.state.Lock()
	defer w.state.Unlock()
	now := time.Now()
	if !exact && now.Sub(w.looked) < sweepEvery {
		return 0, false
	}
	w.looked = now
	if exact || w.clear == 0 || now.Sub(w.full) > sweepFull {
		w.full = now
		return math.MinInt64, true
	}
	return w.clear - sweepSlack, true
}

// above is like begin, for callers with their own schedule.
func (w *sweeper) above() int64 {
	w.state.Lock()
	w.looked = time.Time{}
	w.state.Unlock()
	above, _ := w.begin(false)
	return above
}

// leave puts off a claim that could not be swept, so that it keeps no other one
// waiting.
func (w *sweeper) leave(fence int64) {
	w.state.Lock()
	defer w.state.Unlock()
	if w.left == nil {
		w.left = map[int64]time.Time{}
	}
	w.left[fence] = time.Now().Add(sweepLeft)
}

// leftAlone are the claims that are not to be tried now.
func (w *sweeper) leftAlone() []int64 {
	w.state.Lock()
	defer w.state.Unlock()
	now := time.Now()
	maps.DeleteFunc(w.left, func(_ int64, until time.Time) bool { return now.After(until) })
	return slices.Collect(maps.Keys(w.left))
}

func (w *sweeper) cleared(at int64) {
	w.state.Lock()
	defer w.state.Unlock()
	w.clear = at
}

// whatIsDue: what ends next among claims and lanes, and the store's time.
// Entries of rows that are gone are skipped by $2.
const whatIsDue = `SELECT n.at, (SELECT min(until) FROM @claim WHERE until > $2::timestamptz), (SELECT min(until) FROM @lease WHERE token <= 0 AND until > $2::timestamptz)
	FROM (SELECT clock_timestamp() + $1::interval AS at) n`

// timeValue is a timestamptz; math.MinInt64 is -infinity.
func timeValue(micros int64) []byte {
	if micros == math.MinInt64 {
		return int8Value(micros)
	}
	return int8Value(micros - epoch)
}

// sweepIfDue processes everything that is due, at a bounded rate in a process, and never twice
// at once: a caller that finds a sweep under way continues without waiting. If the server
// refuses, this process or another one repeats it later, and the call goes on: other messages
// can be claimed and listed all the same.
func (s *upkeep) sweepIfDue(ctx context.Context) error {
	err := s.giveUpOrphans(ctx)
	if err == nil || isServer(err) {
		err = s.sweepInTurn(ctx)
	}
	if isServer(err) {
		return nil
	}
	return err
}

// sweepInTurn sweeps if it is time to.
func (s *upkeep) sweepInTurn(ctx context.Context) error {
	if s.exact {
		s.sweeper.mu.Lock()
	} else if !s.sweeper.mu.TryLock() {
		return nil
	}
	defer s.sweeper.mu.Unlock()
	above, due := s.sweeper.begin(s.exact)
	if !due {
		return nil
	}
	_, err := s.sweep(ctx, above)
	return err
}

// sweep processes everything that is due, and returns how long it is until something
// else is; negative if nothing is known. A refusal of the server does not stop the
// rest, and is returned as the error.
func (s *upkeep) sweep(ctx context.Context, above int64) (next time.Duration, err error) {
	for range 100 {
		var at, claims, lanes int64
		if err := s.call(ctx, s.back, read(whatIsDue, func(r row) error {
			at, claims, lanes = r.micros(0), r.micros(1), r.micros(2)
			return nil
		}, s.skewValue(), timeValue(above))); err != nil {
			return 0, err
		}
		dueClaims, dueLanes := claims != 0 && claims <= at, lanes != 0 && lanes <= at
		if !dueClaims && !dueLanes {
			s.sweeper.cleared(at)
			return nearest(at, claims, lanes), err
		}
		swept := 0
		for _, part := range []struct {
			due   bool
			sweep func(context.Context, int64) (int, error)
		}{{dueClaims, s.sweepClaims}, {dueLanes, s.sweepLanes}} {
			if !part.due {
				continue
			}
			n, failed := part.sweep(ctx, above)
			if failed != nil && !isServer(failed) {
				return 0, failed
			}
			swept += n
			err = cmp.Or(err, failed)
		}
		if swept == 0 {
			break // another process sweeps it, or it is left for later
		}
	}
	if len(s.sweeper.leftAlone()) > 0 {
		return sweepEvery, err
	}
	return 0, err
}

func nearest(at int64, moments ...int64) time.Duration {
	next := int64(-1)
	for _, m := range moments {
		if m != 0 && (next < 0 || m-at < next) {
			next = m - at
		}
	}
	return time.Duration(next) * time.Microsecond
}

// Closed lanes and delayed messages.
const (
	dueLanes = `SELECT lane FROM @lease WHERE token = 0 AND until > $2::timestamptz
			AND until <= (SELECT clock_timestamp() + $1::interval) ORDER BY until, lane LIMIT 500 FOR UPDATE SKIP LOCKED`
	// joining waits for transactions that are already moving them: messages that are due or
	// appended later must be behind them.
	joining = `SELECT lane FROM @lease WHERE token = -1 AND until > $2::timestamptz
			AND until <= (SELECT clock_timestamp() + $1::interval) ORDER BY until, lane LIMIT 500 FOR UPDATE`
	readJoining = `SELECT m.lane, m.topic, m.key FROM unnest($1::bigint[]) x(lane)
			CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane OFFSET 0) m`
	// join moves messages to the tail of their lanes, in the order of $1. Those that
	// were retried have been tried before.
	join = `
WITH n AS MATERIALIZED (SELECT nextval('@msg_seq') AS seq, x.* FROM unnest($1::bigint[], $2::bigint[]) x(lane, home)),
m AS (UPDATE @msg m SET lane = n.home, seq = n.seq
	FROM (SELECT n.*, m.ctid AS tid FROM n CROSS JOIN LATERAL (SELECT m.ctid FROM @msg m WHERE m.lane = n.lane OFFSET 0) m) n
	WHERE m.ctid = n.tid RETURNING m.lane, m.seq, m.rank, m.topic, m.prio),
t AS (UPDATE @tried t SET lane = n.home, seq = n.seq
	FROM (SELECT n.*, t.ctid AS tid FROM n CROSS JOIN LATERAL (SELECT t.ctid FROM @tried t WHERE t.seq = n.lane OFFSET 0) t) n
	WHERE t.ctid = n.tid RETURNING t.seq, t.rescues),
a AS (UPDATE @attempt a SET seq = n.seq
	FROM (SELECT n.*, a.ctid AS tid FROM n CROSS JOIN LATERAL (SELECT a.ctid FROM @attempt a WHERE a.seq = n.lane OFFSET 0) a) n
	WHERE a.ctid = n.tid),
s AS (INSERT INTO @slot (band, rank, seq, lane)
	SELECT ` + ticketBand + `, m.rank, m.seq, m.lane FROM m LEFT JOIN t ON t.seq = m.seq),
d AS (DELETE FROM @lease WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM unnest($1::bigint[]) x(lane)
	CROSS JOIN LATERAL (SELECT l.ctid FROM @lease l WHERE l.lane = x.lane AND l.token = -1 OFFSET 0) l)))
SELECT topic FROM m`
)

// sweepLanes opens lanes whose time has come, and moves delayed messages to the
// lanes of their keys.
func (s *upkeep) sweepLanes(ctx context.Context, above int64) (swept int, err error) {
	var woken []int32
	err = s.within(ctx, s.back, nil, func(t *tx) error {
		var open, join []int64
		woken = nil
		if err := t.run(ctx, read(joining, add(&join, row.int8), s.skewValue(), timeValue(above)),
			read(dueLanes, add(&open, row.int8), s.skewValue(), timeValue(above))); err != nil {
			return err
		}
		swept = len(open) + len(join)
		if len(open) > 0 {
			slices.Sort(open)
			tokens := int8Array(make([]int64, len(open))) // closed lanes have none
			err := t.run(ctx, read(openLanes, add(&woken, row.id), int8Array(open), tokens))
			if err != nil {
				return err
			}
		}
		return s.join(ctx, t, join, &woken)
	})
	if err == nil {
		s.listener.wake(woken...)
	}
	return swept, err
}

// promote lets delayed messages that are due join their lanes, before anything
// else is appended to those.
func (s *upkeep) promote(ctx context.Context) error {
	for {
		var lanes []int64
		var woken []int32
		err := s.within(ctx, s.front, nil, func(t *tx) error {
			lanes, woken = nil, nil
			err := t.run(ctx, read(joining, add(&lanes, row.int8), s.skewValue(), timeValue(math.MinInt64)))
			if err != nil {
				return err
			}
			return s.join(ctx, t, lanes, &woken)
		})
		if err != nil {
			return err
		}
		s.listener.wake(woken...)
		if len(lanes) < 500 {
			return nil
		}
	}
}

func (s *upkeep) join(ctx context.Context, t *tx, lanes []int64, woken *[]int32) error {
	if len(lanes) == 0 {
		return nil
	}
	var from, homes []int64
	if err := t.run(ctx, read(readJoining, func(r row) error {
		from = append(from, r.int8(0))
		homes = append(homes, sqlstore.KeyLane(int64(r.int4(1)), r[2]))
		return nil
	}, int8Array(lanes))); err != nil {
		return err
	}
	return t.run(ctx, read(join, add(woken, row.id), int8Array(from), int8Array(homes)))
}

// Ended leases.
const (
	dueClaims = `SELECT ` + claimColumns + `, c.started, c.alone, c.owner, c.topic, c.lanes
		FROM @claim c, (SELECT clock_timestamp() + $1::interval AS at) n
		WHERE c.until > $2::timestamptz AND c.until <= n.at AND c.fence <> ALL ($3::bigint[])
		ORDER BY c.until LIMIT $4::bigint FOR UPDATE OF c SKIP LOCKED`
	soloLeft = `SELECT m.seq, t.attempts, t.rescues, t.lonely FROM unnest($1::bigint[]) x(lane)
		CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane AND m.seq = x.lane OFFSET 0) m
		LEFT JOIN LATERAL (SELECT * FROM @tried t WHERE t.seq = m.seq OFFSET 0) t ON true`
	// runsLeft: the first message that is left of each run.
	runsLeft = `SELECT x.lane, m.seq, t.attempts, t.rescues, t.lonely, x.token FROM unnest($1::bigint[], $2::bigint[]) s(lane, token)
		CROSS JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = s.lane AND l.token = s.token OFFSET 0) x
		CROSS JOIN LATERAL (SELECT m.seq FROM @msg m WHERE m.lane = x.lane AND m.seq BETWEEN x.first AND x.last
			AND (x.run IS NULL OR m.seq = ANY (x.run)) ORDER BY m.seq LIMIT 1) m
		LEFT JOIN LATERAL (SELECT * FROM @tried t WHERE t.seq = m.seq OFFSET 0) t ON true`
	rearm = `UPDATE @claim SET until = $2::timestamptz, gone = coalesce(gone, '{}') || $3::bigint[] WHERE fence = $1::bigint`
)

// overdue is a claim of which a lease has ended.
type overdue struct {
	claimRow
	started int64
	alone   bool
	owner   string
	topic   int32
	ended   map[int64]int64 // lanes, and when their leases ended
	next    int64           // when the next one of it ends; 0: nothing is left
}

func readOverdue(r row) (*overdue, error) {
	o := &overdue{claimRow: readClaimRow(r), started: r.micros(7), alone: r.bool(8), owner: r.text(9), topic: r.id(10),
		ended: map[int64]int64{}}
	for _, lane := range r.int8s(11) {
		end := max(o.ends, o.until[lane])
		switch {
		case o.gone[lane]:
		case end <= o.at:
			o.ended[lane] = end
		case o.next == 0 || end < o.next:
			o.next = end
		}
	}
	return o, nil
}

// sweptAtOnce is how many claims one transaction sweeps.
const sweptAtOnce = 8

// sweepClaims rescues messages that were not settled in time. Where several claims cannot be
// swept together, they are swept one by one, and those that cannot are left for later: the
// messages of the others must not wait for them.
func (s *upkeep) sweepClaims(ctx context.Context, above int64) (swept int, err error) {
	fences, err := s.sweepSome(ctx, above, sweptAtOnce, nil)
	if err == nil || !isServer(err) {
		return len(fences), err
	}
	err = nil
	for range fences {
		one, failed := s.sweepSome(ctx, above, 1, []string{shortLocks})
		switch {
		case failed != nil && (!isServer(failed) || len(one) == 0):
			return swept, failed
		case failed != nil:
			s.sweeper.leave(one[0])
			err = failed
		default:
			swept += len(one)
		}
	}
	return swept, err
}

// sweepSome sweeps the claims that ended first, and returns them, also where it
// fails.
func (s *upkeep) sweepSome(ctx context.Context, above, most int64, settings []string) (fences []int64, err error) {
	var woken []int32
	err = s.within(ctx, s.back, nil, func(t *tx) error {
		fences, woken = nil, nil
		for _, sql := range settings {
			if err := t.run(ctx, do(sql)); err != nil {
				return err
			}
		}
		claims, err := query(ctx, t, readOverdue, dueClaims, s.skewValue(), timeValue(above),
			int8Array(s.sweeper.leftAlone()), int8Value(most))
		if err != nil || len(claims) == 0 {
			return err
		}
		for _, c := range claims {
			fences = append(fences, c.fence)
		}
		return s.rescue(ctx, t, claims, &woken)
	})
	if err == nil && len(fences) > 0 {
		s.sweeper.rescued()
		s.listener.wake(woken...)
	}
	return fences, err
}

// rescue ends the leases of claims. Only the first message that is left of each run can
// be the cause.
func (s *upkeep) rescue(ctx context.Context, t *tx, claims []*overdue, woken *[]int32) error {
	owners := map[held]*overdue{} // a lane may be in several claims, ended in all but one
	var solo []int64
	var leased []held
	for _, o := range claims {
		for lane := range o.ended {
			if lane > 0 {
				owners[held{lane, 0}] = o
				solo = append(solo, lane)
			} else {
				owners[held{lane, o.fence}] = o
				leased = append(leased, held{lane, o.fence})
			}
		}
	}
	slices.Sort(solo)
	lanes, tokens := sortedLanes(leased)
	w := &writing{at: claims[0].at}
	err := t.run(ctx,
		read(lockLanes, nil, int8Array(lanes), int8Array(tokens)),
		read(soloLeft, func(r row) error {
			lane := r.int8(0)
			w.openSolo = append(w.openSolo, lane)
			w.rescueOne(owners[held{lane, 0}], lane, lane, r.int4(1), r.int4(2), r.int4(3))
			return nil
		}, int8Array(solo)),
		read(runsLeft, func(r row) error {
			lane := r.int8(0)
			w.cut = append(w.cut, lane)
			w.rescueOne(owners[held{lane, r.int8(5)}], lane, r.int8(1), r.int4(2), r.int4(3), r.int4(4))
			return nil
		}, int8Array(lanes), int8Array(tokens)))
	if err != nil {
		return err
	}
	w.openLanes, w.openTokens = lanes, tokens
	for _, o := range claims {
		if o.next == 0 {
			w.drop = append(w.drop, o.fence)
			continue
		}
		gone := slices.Collect(maps.Keys(o.ended))
		w.more = append(w.more, do(rearm, int8Value(o.fence), timeValue(o.next), int8Array(gone)))
	}
	err = t.run(ctx, w.steps(s.core)...)
	*woken = append(*woken, w.woken...)
	return err
}

// rescueOne records the rescue of the message that may have caused the end of its claim.
func (w *writing) rescueOne(o *overdue, lane, seq int64, attempts, rescues, lonely int) {
	if o.alone && store.Solitary(rescues) {
		lonely++
	} else {
		w.died(o.topic, o.owner, o.ended[lane])
	}
	rescues++
	a := sqlstore.RescuedAttempt(attempts, o.owner, moment(o.started), moment(o.ended[lane]), moment(o.hard))
	w.try(lane, seq, attempts, rescues, lonely, a.Error, o.ended[lane])
	w.record(seq, a)
	w.count(o.topic, tallyRescues, 1)
	if lonely >= store.LonelyRescues {
		w.makeDead(lane, seq, pawl.KindRescue, backend.LonelyReason)
	}
}
