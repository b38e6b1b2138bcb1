package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// TopicStats are the figures of the copying of a topic, as JSON.
type TopicStats struct {
	Offered int64 `json:"offered"` // stored by the primary, and to be copied
	Written int64 `json:"written"`
	There   int64 `json:"there"`   // the mirrored store had it already
	Missed  int64 `json:"missed"`  // no room in the queue, or no time at the end
	Refused int64 `json:"refused"` // by the mirrored store
	Late    int64 `json:"late"`    // given up, because the topic was no longer copied by then
	// Unknown counts messages of an append that failed with an outcome that is unknown.
	Unknown   int64  `json:"unknown"`
	LastError string `json:"last_error,omitempty"`
}

// counts are the figures that add up.
func (t *TopicStats) counts() []*int64 {
	return []*int64{&t.Offered, &t.Written, &t.There, &t.Missed, &t.Refused, &t.Late, &t.Unknown}
}

// Waiting are copies that are in queues or on their way, or died with the process that had them.
func (t *TopicStats) Waiting() int64 {
	return t.Offered - t.Written - t.There - t.Missed - t.Refused - t.Late
}

// add adds figures, so many times.
func (t *TopicStats) add(o TopicStats, times int64) {
	more := o.counts()
	for i, n := range t.counts() {
		*n += times * *more[i]
	}
	t.LastError = cmp.Or(o.LastError, t.LastError)
}

// Stats returns the figures of this process, by topic.
func (s *Store) Stats() map[string]TopicStats {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	all := make(map[string]TopicStats, len(s.copies.stats))
	for name, t := range s.copies.stats {
		all[name] = *t
	}
	return all
}

const (
	copiesPrefix = "traffic/copies/"
	sayEvery     = 2 * time.Second
	sayTime      = 5 * time.Second
	sayAs        = "mirror"
)

// Copies are the figures of all processes for a topic.
func (ps *Plans) Copies(ctx context.Context, topic string) (sum TopicStats, err error) {
	sum, _, err = ps.copies(ctx, topic)
	return sum, err
}

func (ps *Plans) copies(ctx context.Context, topic string) (sum TopicStats, version int64, err error) {
	e, err := ps.state.GetState(ctx, copiesPrefix+topic)
	if errors.Is(err, store.ErrNotFound) {
		return sum, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(e.Value, &sum)
	}
	return sum, e.Version, err
}

// Forget removes the figures of a topic.
func (ps *Plans) Forget(ctx context.Context, topic string) error {
	err := ps.state.DeleteState(ctx, copiesPrefix+topic, store.AnyVersion)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// say keeps the stages fresh, and adds the figures to those of all processes whenever they
// have changed, until ctx ends.
func (s *Store) say(ctx context.Context) {
	last := time.Now()
	for store.Sleep(ctx, refreshEvery) == nil {
		_ = s.stages.read(ctx, time.Now()) // in advance; an error is left to the calls that need the stages
		if time.Since(last) >= sayEvery {
			s.sayNow(ctx)
			last = time.Now()
		}
	}
}

// sayNow adds what is new to the figures of all processes. What cannot be added now is with
// the next call. One goroutine at a time calls it.
func (s *Store) sayNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sayTime)
	defer cancel()
	for topic, now := range s.Stats() {
		news := now
		news.add(s.said[topic], -1)
		news.LastError = now.LastError
		if news == (TopicStats{LastError: s.said[topic].LastError}) || !s.stages.planned(topic) {
			continue
		}
		if s.stages.plans.addCopies(ctx, topic, news) == nil {
			s.said[topic] = now
		}
	}
}

// addCopies adds to the figures of all processes.
func (ps *Plans) addCopies(ctx context.Context, topic string, news TopicStats) error {
	for {
		sum, version, err := ps.copies(ctx, topic)
		if err != nil {
			return err
		}
		sum.add(news, 1)
		b, err := json.Marshal(sum)
		if err == nil {
			_, err = ps.state.PutState(ctx, copiesPrefix+topic, b, version, sayAs)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
