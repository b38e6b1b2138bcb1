package relay

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// repeated is how many messages, at most, come over again for a lease of the side
// store that ended unsettled.
const repeated = store.DefaultRun

func (s *Store) ofLog() (store.Topics, error) {
	t, ok := store.As[store.Topics](s.log)
	if !ok {
		return nil, &store.Error{Op: "topics", Code: store.ErrUnsupported}
	}
	return t, nil
}

// Topic implements [store.Topics]. A topic whose messages all wait in the side
// store is there, too.
func (s *Store) Topic(ctx context.Context, name string) (store.Topic, error) {
	t, err := s.ofLog()
	if err != nil {
		return store.Topic{}, err
	}
	got, err := t.Topic(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		if _, err := s.topics.Topic(ctx, s.cfg.Prefix+name); err == nil {
			return store.NewTopic(name), nil
		}
	}
	return got, err
}

// Declare implements [store.Topics]: settings are those of the log.
func (s *Store) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	t, err := s.ofLog()
	if err != nil {
		return store.Topic{}, err
	}
	return t.Declare(ctx, d)
}

// Alter implements [store.Topics].
func (s *Store) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
	t, err := s.ofLog()
	if err != nil {
		return store.Topic{}, err
	}
	return t.Alter(ctx, to)
}

// Pause implements [store.Topics]: messages are brought over all the same, and wait
// there.
func (s *Store) Pause(ctx context.Context, topic string, d time.Duration, by, reason string) error {
	t, err := s.ofLog()
	if err != nil {
		return err
	}
	return t.Pause(ctx, topic, d, by, reason)
}

// Resume implements [store.Topics].
func (s *Store) Resume(ctx context.Context, topic string) error {
	t, err := s.ofLog()
	if err != nil {
		return err
	}
	return t.Resume(ctx, topic)
}

// Stats implements [store.Topics]: what waits in the side store is waiting or
// delayed, and what was brought over counts once.
func (s *Store) Stats(ctx context.Context, topics ...string) ([]store.TopicStats, error) {
	t, err := s.ofLog()
	if err != nil {
		return nil, err
	}
	// The side store first: what moves in between is counted twice rather than not
	// at all.
	var names []string
	for _, name := range topics {
		names = append(names, s.cfg.Prefix+name)
	}
	side, err := s.topics.Stats(ctx, names...)
	if err != nil {
		return nil, err
	}
	all, err := t.Stats(ctx, topics...)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i := range all {
		at[all[i].Name] = i
	}
	for i := range side {
		r := &side[i]
		name, ours := strings.CutPrefix(r.Name, s.cfg.Prefix)
		if !ours {
			continue
		}
		if _, ok := at[name]; !ok {
			at[name] = len(all)
			all = append(all, store.TopicStats{Topic: store.NewTopic(name)})
		}
		st := &all[at[name]]
		direct := max(0, st.Appended-r.Acked-repeated*r.Rescues)
		st.Appended = r.Appended + direct
		st.Duplicates += r.Duplicates
		st.Waiting += r.Waiting + r.Leased
		st.Delayed += r.Delayed
		if st.OldestWaiting >= 0 { // or the log cannot tell
			st.OldestWaiting = max(st.OldestWaiting, r.OldestWaiting)
		}
	}
	return all, nil
}
