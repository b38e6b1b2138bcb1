package spill

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A message goes behind the rows of its key, whichever process left them: the fallback
// store is asked about the key while the topic has rows there. That the topic has none
// need not be asked for each message. It is known for as long as every Append that adds a
// row waits before it returns: one that begins afterwards, in whatever process, looks
// again. Each process compares durations of its own clock only.
const knownFor = 50 * time.Millisecond

// lookTime bounds the wait for the fallback store, and is for how long it is not asked
// again when it did not answer.
const lookTime = time.Second

// look makes sure that it is known whether a topic has rows, or counts that it is not.
func (s *Store) look(ctx context.Context, name string) *topic {
	oldest := time.Now().Add(-knownFor)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(name)
	for s.shared && !t.waiting && !t.looked.After(oldest) && ctx.Err() == nil {
		if time.Since(t.failed) < lookTime {
			s.blind++
			break
		}
		looking := t.looking
		if looking == nil {
			s.read(ctx, t)
			continue
		}
		s.mu.Unlock()
		select {
		case <-looking:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return t
}

// read asks the fallback store whether a topic has rows. Store.mu is locked before and
// after.
func (s *Store) read(ctx context.Context, t *topic) {
	looking, spills, begun := make(chan struct{}), t.spills, time.Now()
	t.looking = looking
	s.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, lookTime)
	rows, err := s.rows(bound, store.Filter{Topic: topicOf(t.name)})
	cancel()
	s.mu.Lock()
	t.looking = nil
	close(looking)
	switch {
	case err != nil && ctx.Err() == nil:
		t.failed = time.Now()
	case err != nil:
	case rows:
		s.hasRows(t)
	case t.spills == spills:
		t.waiting, t.looked = false, begun
		clear(t.latched)
	}
}

// hasRows notes that a topic has rows. Store.mu is locked.
func (s *Store) hasRows(t *topic) {
	t.waiting = true
	t.spills++
	s.byRow[topicOf(t.name)] = t.name
}

// mustWait reports whether a message goes behind rows of its key. The call of that
// message is the first of its key: nobody adds a row in this process.
func (s *Store) mustWait(ctx context.Context, k laneKey) (bool, error) {
	t := s.look(ctx, k.topic)
	s.mu.Lock()
	_, known := t.latched[k.key]
	// What goes aside in any case need not be asked about, unless it may be diverted.
	ask := t.waiting && (!t.isDown() || t.answered && s.cfg.Divert != nil)
	s.mu.Unlock()
	if !ask {
		return known, nil
	}
	rows, err := s.rows(ctx, store.Filter{Topic: topicOf(k.topic), Key: []byte(k.key)})
	if ctx.Err() != nil {
		return false, &store.Error{Op: "append", Err: ctx.Err()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: // then it cannot be spilled to, either; what is known counts
		s.blind++
		return known, nil
	case !rows:
		delete(t.latched, k.key)
	case !known:
		t.latched[k.key] = ""
	}
	return rows, nil
}

// rows asks the fallback store whether it has such rows.
func (s *Store) rows(ctx context.Context, f store.Filter) (bool, error) {
	f.Limit = 1
	for _, err := range s.inspector.List(ctx, f) {
		return err == nil, err
	}
	return false, ctx.Err()
}
