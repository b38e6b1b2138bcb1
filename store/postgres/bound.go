package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/bound"
)

// countWaiting counts the messages that the bound of a topic is computed from: appended, gone,
// dead and leased ones.
const countWaiting = `WITH ` + heldSolo + `,
t AS MATERIALIZED (SELECT what, n FROM @tally WHERE topic = $1::int UNION ALL SELECT what, n FROM @total WHERE topic = $1::int)
SELECT (SELECT coalesce(sum(n), 0)::bigint FROM t WHERE what = 1), (SELECT coalesce(sum(n), 0)::bigint FROM t WHERE what IN (2, 3, 4)),
	(SELECT count(*) FROM @dead WHERE topic = $1::int),
	(SELECT count(*) FROM held h CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = h.lane AND m.seq = h.lane OFFSET 0) m
		WHERE m.topic = $1::int)
	+ (SELECT count(*) FROM @lease l CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = l.lane
		AND m.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR m.seq = ANY (l.run)) OFFSET 0) m
		WHERE l.token > 0 AND m.topic = $1::int)`

// meterLook is how the meter looks at the topics.
func (s *registry) meterLook(ctx context.Context) bound.Look {
	return bound.Look{
		Now: time.Now().Add(s.skew()),
		Most: func(name string) int64 {
			if t := s.topics.named(name); t != nil {
				return t.MaxWaiting
			}
			return 0
		},
		Read: func(name string) (bound.Reading, error) {
			if t := s.topics.named(name); t != nil {
				return s.reading(ctx, t.id)
			}
			return bound.Reading{}, nil // the cache was emptied meanwhile
		},
	}
}

// reading counts in one topic.
func (s *registry) reading(ctx context.Context, id int32) (got bound.Reading, err error) {
	err = s.within(ctx, s.front, coldSettings, func(t *tx) error {
		return t.run(ctx, read(countWaiting, func(r row) error {
			got.Left = r.int8(1) + r.int8(2)
			got.Waiting = r.int8(0) - got.Left - r.int8(3)
			return nil
		}, int4Value(id)))
	})
	return got, err
}

// Full implements [store.Topics].
func (s *registry) Full(ctx context.Context, topics ...string) (full []*store.TopicFullError, err error) {
	err = s.guard(ctx, "full", func(ctx context.Context) error {
		for _, name := range topics {
			if _, err := s.known(ctx, name); err != nil {
				return err
			}
		}
		s.topics.used.Store(true)
		full, err = s.meter.Full(s.meterLook(ctx), topics...)
		return err
	})
	return full, err
}

// refreshTopics reads the settings again while they are in use, so that a maximum that another
// process has set is kept here, too.
func (s *registry) refreshTopics() {
	if !s.topics.used.Swap(false) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, tidyEvery)
	defer cancel()
	_ = s.loadTopics(ctx) // there is a next time
}
