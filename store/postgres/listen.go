package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// listener wakes claimers, here and in other processes.
type listener struct {
	*core
	upkeep *upkeep
	news   news
}

// newsLoop notices changes by other processes and due messages, from the first listener on.
func (s *listener) newsLoop() {
	if !s.cfg.PollOnly {
		s.background(s.notifyLoop)
	}
	select {
	case <-s.ctx.Done():
		return
	case <-s.news.begun:
	}
	if !s.cfg.PollOnly {
		s.background(s.listenLoop)
	}
	s.alarmLoop()
}

// alarmLoop sweeps when something is due, and looks for work: often while notifications
// do not arrive, otherwise rarely, for changes without a notification.
func (s *listener) alarmLoop() {
	next := time.Duration(0)
	for {
		select {
		case <-s.ctx.Done():
			return
		case d := <-s.news.ring:
			next = min(max(next, 0), d) // soon enough; the look below finds out exactly
			if d > alarmLeast {
				continue
			}
		case <-time.After(max(next, alarmLeast)):
		}
		if next = s.look(); !s.news.hears.Load() {
			next = min(next, s.cfg.PollEvery)
		}
	}
}

// look sweeps, wakes listeners of topics with tickets, and returns how long it has nothing to
// do.
func (s *listener) look() time.Duration {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.CallTimeout)
	defer cancel()
	wanted := s.news.wanted()
	if len(wanted) == 0 {
		return alarmEvery
	}
	s.upkeep.sweeper.mu.Lock()
	next, err := s.upkeep.sweep(ctx, s.upkeep.sweeper.above())
	s.upkeep.sweeper.mu.Unlock()
	if err == nil || isServer(err) { // what cannot be swept hides no ticket
		err = s.tellOfTickets(ctx, wanted)
	}
	if err != nil || next < 0 {
		return alarmEvery
	}
	return min(next+time.Millisecond, alarmEvery)
}

const withTickets = `SELECT t.name FROM unnest($1::text[]) x(name)
	CROSS JOIN LATERAL (SELECT * FROM @topic t WHERE t.name = x.name OFFSET 0) t
	WHERE (t.paused_at IS NULL OR t.pause_until <= (SELECT clock_timestamp() + $2::interval)) AND EXISTS (
		SELECT FROM (SELECT b.prio FROM @band b WHERE b.topic = t.id OFFSET 0) b CROSS JOIN (VALUES (0), (128)) g(gen)
		CROSS JOIN LATERAL (SELECT FROM @slot s WHERE s.band = t.id * 512::bigint + g.gen + b.prio LIMIT 1) s
		UNION ALL SELECT FROM @slot s WHERE s.band BETWEEN t.id * 512::bigint + 386 AND t.id * 512::bigint + 388)`

func (s *listener) tellOfTickets(ctx context.Context, wanted []string) error {
	return s.call(ctx, s.back, read(withTickets, func(r row) error {
		s.news.wakeOwn(r.text(0))
		return nil
	}, textArray(wanted), s.skewValue()))
}

const (
	listenTest  = 3 * time.Second  // how long the notification of the self-test may take
	listenQuiet = 15 * time.Second // after which the connection is tried
	listenRetry = 5 * time.Second
)

// listenLoop keeps one connection that listens.
func (s *listener) listenLoop() {
	wait := 100 * time.Millisecond
	for s.ctx.Err() == nil {
		heard, _ := s.listen()
		s.news.hears.Store(false)
		if heard {
			wait = 100 * time.Millisecond
		}
		if !s.pause(wait) {
			return
		}
		wait = min(2*wait, listenRetry)
	}
}

var errDeaf = errors.New("notifications do not arrive")

// listen listens until the connection breaks. It first tries whether a
// notification arrives: behind a pooler of transactions none does.
func (s *listener) listen() (heard bool, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, connectLimit)
	defer cancel()
	conn, done, err := s.ownConn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	if _, err := conn.Exec(ctx, `LISTEN "`+s.channel()+`"`); err != nil {
		return false, err
	}
	if err := s.selfTest(conn); err != nil {
		return false, err
	}
	s.news.hears.Store(true)
	s.news.wakeOwn("") // something may have been missed
	for {
		if err := s.waitNotification(conn); err != nil {
			return true, err
		}
	}
}

func (s *listener) selfTest(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(s.ctx, listenTest)
	defer cancel()
	if err := s.notify(s.news.origin + " test"); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return errors.Join(errDeaf, err)
		}
		if n.Payload == s.news.origin+" test" {
			return nil
		}
		s.hear(n.Payload)
	}
}

// waitNotification waits for one notification, or makes sure that the
// connection is alive.
func (s *listener) waitNotification(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(s.ctx, listenQuiet)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err == nil {
		s.hear(n.Payload)
		return nil
	}
	if s.ctx.Err() != nil || ctx.Err() == nil || conn.IsClosed() {
		return err
	}
	ping, stop := context.WithTimeout(s.ctx, pingLimit)
	defer stop()
	return conn.Ping(ping)
}
