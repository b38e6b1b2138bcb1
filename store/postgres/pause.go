package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// A pause is a part of the topic's row that every claim reads: it holds with the
// next claim of any process.
const (
	pauseTopic = `UPDATE @topic SET paused_at = n.at, pause_until = CASE WHEN $2::bigint > 0
			THEN n.at + $2::bigint * interval '1 microsecond' END, pause_by = $3::text, pause_reason = $4::text
		FROM (SELECT clock_timestamp() + $5::interval AS at) n WHERE name = $1::text`
	resumeTopic = `UPDATE @topic SET paused_at = NULL, pause_until = NULL, pause_by = NULL, pause_reason = NULL
		WHERE name = $1::text AND paused_at IS NOT NULL RETURNING id`
)

// Pause implements [store.Topics].
func (s *registry) Pause(ctx context.Context, name string, d time.Duration, by, reason string) error {
	if err := pawl.ValidTopic(name); err != nil {
		return err
	}
	until := int64(0)
	if d > 0 {
		until = max(d.Microseconds(), 1)
	}
	err := s.guard(ctx, "pause", func(ctx context.Context) error {
		if err := s.create(ctx, name, true, false); err != nil {
			return err
		}
		return s.call(ctx, s.front, do(bringBack, textValue(name)), do(pauseTopic, textValue(name), int8Value(until),
			textValue(store.Text(by)), textValue(store.Text(reason)), s.skewValue()))
	})
	if err == nil && d > 0 {
		s.listener.news.alarm(d) // what waits is claimable then
	}
	return err
}

// Resume implements [store.Topics].
func (s *registry) Resume(ctx context.Context, name string) error {
	return s.guard(ctx, "resume", func(ctx context.Context) error {
		if pawl.ValidTopic(name) != nil {
			return nil
		}
		var ids []int32
		err := s.call(ctx, s.front, read(resumeTopic, add(&ids, row.id), textValue(name)))
		s.listener.wake(ids...)
		return err
	})
}
