package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Stats are the figures of the copying of one process, since it began, as JSON.
type Stats struct {
	Topics map[string]*TopicStats `json:"topics"`
	// Waiting are copies in queues or on their way, Bytes their size.
	Waiting int `json:"waiting"`
	Bytes   int `json:"bytes"`
	// Slowest is the longest that a copy took to be written.
	Slowest time.Duration `json:"slowest_ns"`
	// Retries counts calls to the mirrored store that failed.
	Retries   int64  `json:"retries"`
	LastError string `json:"last_error,omitempty"`
	// Closed tells that the process ended as it should.
	Closed bool `json:"closed"`
}

// TopicStats are the figures of a topic, by its name in the primary. Offered = Written
// + There + Missed + Refused + Late + what waits.
type TopicStats struct {
	Offered int64 `json:"offered"` // stored by the primary, and to be copied
	Written int64 `json:"written"`
	There   int64 `json:"there"`   // the mirrored store had it already
	Missed  int64 `json:"missed"`  // no room in the queue, or no time at the end
	Refused int64 `json:"refused"` // by the mirrored store
	Late    int64 `json:"late"`    // given up because the topic had moved by then, or was copied no more
	Skipped int64 `json:"skipped"` // not in the sample, or left out by Transform
	// Unknown counts messages of an append that failed with an outcome that is unknown.
	Unknown int64 `json:"unknown"`
	// Sending are copies on their way to the mirrored store, and those of which it never
	// said whether they arrived. While the topic is closed, nothing is sent.
	Sending int64 `json:"sending"`
	// Unanswered is when the last process ended that counted as Sending what may arrive
	// after that, by the primary's clock.
	Unanswered time.Time `json:"unanswered,omitzero"`
	// Plan is the version of the plan that the process acted on, at least, when it counted.
	Plan int64 `json:"plan_version"`
	// Carried counts messages that went back to the primary.
	Carried int64 `json:"carried"`
}

// counts are the figures that add up.
func (t *TopicStats) counts() []*int64 {
	return []*int64{&t.Offered, &t.Written, &t.There, &t.Missed, &t.Refused, &t.Late, &t.Skipped, &t.Unknown, &t.Sending,
		&t.Carried}
}

// Waiting are copies of the topic in queues or on their way.
func (t *TopicStats) Waiting() int64 {
	return t.Offered - t.Written - t.There - t.Missed - t.Refused - t.Late
}

// Complete reports whether every message that was offered has a copy, waits for one, or
// no longer needs one.
func (s *Stats) Complete() bool {
	for _, t := range s.Topics {
		if t.Missed+t.Refused > 0 {
			return false
		}
	}
	return true
}

// Stats returns the figures of this process.
func (s *Store) Stats() Stats {
	known := s.stages.versions() // before what is counted
	stats := s.copies.figures()
	for topic, t := range stats.Topics {
		t.Plan = known[topic]
	}
	return stats
}

func (c *copier) figures() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Waiting, out.Bytes = c.count, c.bytes
	out.Topics = make(map[string]*TopicStats, len(c.stats.Topics))
	for name, t := range c.stats.Topics {
		out.Topics[name] = new(*t)
	}
	return out
}

// topic returns the figures of a topic. The caller has mu.
func (c *copier) topic(name string) *TopicStats {
	t := c.stats.Topics[name]
	if t == nil {
		t = &TopicStats{}
		c.stats.Topics[name] = t
	}
	return t
}

func (c *copier) note(topic string, change func(*TopicStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.topic(topic))
}

// Writer is the last report of a process about its copying.
type Writer struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // by the primary's clock
	Stats
}

const (
	sayEvery = 2 * time.Second
	sayTime  = 5 * time.Second
	// Silent is how long a process may fail to report before it is presumed dead.
	Silent = 15 * time.Second
	// Gone is how long after its last report nothing that a process sent can still be in
	// flight. The process may live, and be cut off only from the primary: then it sends
	// by the stages that it last read, for [Fresh], and the call takes some time.
	Gone = callTime + Silent
)

// MayArrive reports whether, at that time by the primary's clock, copies of the topic may
// arrive that a process sent before it closed.
func (t *TopicStats) MayArrive(now time.Time) bool {
	return t.Sending > 0 && now.Sub(t.Unanswered) <= Gone
}

// Writers returns the last reports of processes about their copying, by name.
func (ps *Plans) Writers(ctx context.Context) (map[string]Writer, error) {
	found := map[string]Writer{}
	for e, err := range ps.state.ListState(ctx, writerPrefix, 0) {
		if err != nil {
			return nil, err
		}
		w := Writer{Name: strings.TrimPrefix(e.Key, writerPrefix), At: e.At}
		if err := json.Unmarshal(e.Value, &w.Stats); err != nil {
			return nil, &store.Error{Op: "read " + e.Key, Code: store.ErrCorrupt, Err: err}
		}
		found[w.Name] = w
	}
	return found, nil
}

// Forget removes the reports of processes that no longer run.
func (ps *Plans) Forget(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := ps.state.DeleteState(ctx, writerPrefix+name, store.AnyVersion)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// say reports the figures whenever they have changed, until ctx ends.
func (s *Store) say(ctx context.Context) {
	var before []byte
	last := time.Now()
	for store.Sleep(ctx, refreshEvery) == nil {
		_ = s.stages.read(ctx, time.Now()) // in advance; an error is left to the calls that need the stages
		stats := s.Stats()
		if len(stats.Topics) == 0 {
			continue
		}
		// Unchanged figures are reported again at intervals: silence counts as death,
		// and a command that has closed a topic waits for reports.
		awaited := s.awaited(&stats)
		if time.Since(last) < sayEvery && !awaited {
			continue
		}
		now, _ := json.Marshal(stats) // it is made of numbers and text
		if string(now) == string(before) && time.Since(last) < Silent/3 && !awaited {
			continue
		}
		if said, err := s.sayNow(ctx); err == nil {
			before, last = said, time.Now()
		}
	}
}

// awaited reports whether one of the topics of which there are figures is closed.
func (s *Store) awaited(stats *Stats) bool {
	for topic := range stats.Topics {
		if s.stages.route(topic).stage == Closing {
			return true
		}
	}
	return false
}

// sayNow writes the figures as they are, and returns them. One at a time does, from making
// them to the answer: older ones must not replace newer ones.
func (s *Store) sayNow(ctx context.Context) ([]byte, error) {
	select {
	case s.saying <- struct{}{}:
	case <-ctx.Done():
		return nil, &store.Error{Op: "tell of copies", Err: ctx.Err()}
	}
	defer func() { <-s.saying }()
	now, _ := json.Marshal(s.Stats()) // it is made of numbers and text
	return now, s.put(ctx, now)
}

func (s *Store) put(ctx context.Context, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sayTime)
	defer cancel()
	_, err := s.stages.plans.state.PutState(ctx, writerPrefix+s.cfg.Name, value, store.AnyVersion, s.cfg.Name)
	return err
}

// ended is the name under which the figures of processes that have ended are summed up.
const ended = "ended"

// farewell adds the figures of this process to the sum of those that have ended, if
// there are any, so that the state does not grow with the number of processes.
func (s *Store) farewell() {
	stats := s.Stats()
	if s.stages.plans == nil || len(stats.Topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sayTime)
	defer cancel()
	stats.Closed = true
	for _, t := range stats.Topics {
		if t.Sending > 0 {
			now, err := s.stages.plans.Clock(ctx)
			if err != nil {
				return // its last report counts, as if it had died
			}
			t.Unanswered = now.UTC()
		}
	}
	if s.stages.plans.sumUp(ctx, stats, s.cfg.Name) == nil {
		_ = s.stages.plans.Forget(ctx, s.cfg.Name) // a process that reported nothing has no entry
		return
	}
	b, _ := json.Marshal(stats) // it is made of numbers and text
	_ = s.put(ctx, b)           // a comparison of the stores is not affected
}

// sumUp adds figures to those of the processes that have ended.
func (ps *Plans) sumUp(ctx context.Context, stats Stats, who string) error {
	for {
		sum, version := Stats{}, int64(0)
		e, err := ps.state.GetState(ctx, writerPrefix+ended)
		switch {
		case err == nil:
			version = e.Version
			err = json.Unmarshal(e.Value, &sum)
		case errors.Is(err, store.ErrNotFound):
			err = nil
		}
		if err != nil {
			return err
		}
		sum.Merge(stats)
		sum.Closed = true
		b, err := json.Marshal(sum)
		if err == nil {
			_, err = ps.state.PutState(ctx, writerPrefix+ended, b, version, who)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// Merge adds figures of another process.
func (s *Stats) Merge(o Stats) {
	if s.Topics == nil {
		s.Topics = map[string]*TopicStats{}
	}
	for name, t := range o.Topics {
		have := s.Topics[name]
		if have == nil {
			have = &TopicStats{}
			s.Topics[name] = have
		}
		more := t.counts()
		for i, n := range have.counts() {
			*n += *more[i]
		}
		if t.Unanswered.After(have.Unanswered) {
			have.Unanswered = t.Unanswered
		}
	}
	s.Waiting += o.Waiting
	s.Bytes += o.Bytes
	s.Slowest = max(s.Slowest, o.Slowest)
	s.Retries += o.Retries
	s.LastError = cmp.Or(o.LastError, s.LastError)
}
