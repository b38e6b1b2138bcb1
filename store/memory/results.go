package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// results are the messages of a topic with from < seq <= to that are neither acked
// nor dead, by seq.
func (s *inspector) results(op, topic string, from, to int64) (found []*message, err error) {
	t := s.topics[topic]
	if t == nil {
		return nil, nil
	}
	if err := backend.AdmitResults(op, &t.Topic); err != nil {
		return nil, err
	}
	for _, m := range s.messages {
		if m.Topic == topic && m.lane != nil && m.seq > from && m.seq <= to {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	return found, nil
}

// ScanResults implements [store.Results].
func (s *inspector) ScanResults(ctx context.Context, topic string, after int64, limit int) ([]store.Result, int64, error) {
	if err := backend.AdmitScan(topic, after, limit); err != nil {
		return nil, after, err
	}
	if _, err := s.enter(ctx, "scan results"); err != nil {
		return nil, after, err
	}
	defer s.mu.Unlock()
	found, err := s.results("scan results", topic, after, s.seq)
	if err != nil {
		return nil, after, err
	}
	var results []store.Result
	next, size := max(after, s.seq), 0
	for _, m := range found {
		if size += m.Size(); len(results) == limit || size > backend.ResultBytes && len(results) > 0 {
			next = results[len(results)-1].Cursor
			break
		}
		results = append(results, store.Result{Cursor: m.seq, Message: own(m.Message), EnqueuedAt: m.EnqueuedAt})
	}
	return results, next, nil
}

// RemoveResults implements [store.Results].
func (s *inspector) RemoveResults(ctx context.Context, topic string, upTo int64) (removed int64, err error) {
	if err := backend.AdmitScan(topic, upTo, 1); err != nil {
		return 0, err
	}
	now, err := s.enter(ctx, "remove results")
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	defer s.setAlarm(now)
	found, err := s.results("remove results", topic, 0, upTo)
	for _, m := range found {
		if state := m.state(); state == store.Waiting || state == store.Delayed {
			m.lane.topic.totals.Acked++
			s.takeOut(m)
			removed++
		}
	}
	return removed, err
}
