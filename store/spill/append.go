package spill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Append implements [store.Store]. What it accepts is in the primary store, with
// the dead-letter route, or in the fallback store. What no level took comes back
// with a [*LostError] and an error in its receipt.
func (s *Store) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, kept, err := s.append(ctx, batch)
	if kept {
		s.letOthersKnow()
	}
	return receipts, err
}

// letOthersKnow waits until no process goes by what it saw before a row was there.
func (s *Store) letOthersKnow() {
	if s.shared {
		_ = store.Sleep(s.stop, knownFor)
	}
}

// append is Append without the wait for other processes. kept: a message with a key became
// a row.
func (s *Store) append(ctx context.Context, batch store.Batch[pawl.Message]) (_ []store.Receipt, kept bool, err error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, false, err
	}
	if err := s.enter(ctx, batch); err != nil {
		return nil, false, err
	}
	c := &call{batch: batch, receipts: receipts}
	s.join(c)
	if err := s.await(ctx, c); err != nil {
		return nil, false, err
	}
	defer s.leave(c) // also if a store panics: the keys must not wait for ever
	s.recall(c)
	c.setIDs()
	if err := s.route(ctx, c); err != nil {
		return nil, false, err
	}
	receipts, err = s.carry(ctx, c)
	return receipts, c.kept, err
}

// enter refuses calls that are too early or too late.
func (s *Store) enter(ctx context.Context, batch store.Batch[pawl.Message]) error {
	if err := ctx.Err(); err != nil {
		return &store.Error{Op: "append", Err: err}
	}
	if s.closed.Load() {
		return closedError("append")
	}
	select {
	case <-s.loaded:
		return nil
	default:
	}
	if !slices.ContainsFunc(batch.Items, func(m pawl.Message) bool { return m.Key != nil }) {
		return nil
	}
	select {
	case <-s.loaded:
		return nil
	case <-ctx.Done():
		return &store.Error{
			Op: "append", Code: store.ErrUnavailable,
			Err:  fmt.Errorf("which keys have rows in the fallback store is not known yet: %w", ctx.Err()),
			Hint: "see whether the fallback store is reachable",
		}
	case <-s.stop.Done():
		return closedError("append")
	}
}

// setIDs gives the call's messages the ids of their receipts.
func (c *call) setIDs() {
	cloned := false
	for i := range c.batch.Items {
		if c.batch.Items[i].ID == c.receipts[i].ID {
			continue
		}
		if !cloned {
			c.batch.Items, cloned = slices.Clone(c.batch.Items), true
		}
		c.batch.Items[i].ID = c.receipts[i].ID
	}
}

// route decides where each message goes first.
func (s *Store) route(ctx context.Context, c *call) error {
	var rows map[laneKey]bool
	for _, k := range c.keys {
		wait, err := s.mustWait(ctx, k)
		if err != nil {
			return err
		}
		if wait && rows == nil {
			rows = map[laneKey]bool{}
		}
		if wait {
			rows[k] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var probing map[*topic]bool
	for i := range c.batch.Items {
		if c.receipts[i].Err != nil || c.routed(i) == nowhere {
			continue
		}
		m := &c.batch.Items[i]
		t := s.topic(m.Topic)
		switch {
		case m.Key != nil && rows[laneKey{m.Topic, string(m.Key)}]:
			c.send(i, behind)
		case !t.down || probing[t]:
		case t.isDown():
			c.send(i, aside)
		default: // this call is the probe
			s.postpone(t)
			if probing == nil {
				probing = map[*topic]bool{}
			}
			probing[t] = true
		}
	}
	return nil
}

// send sets where a message goes.
func (c *call) send(i int, to route) {
	if c.routes == nil {
		c.routes = make([]route, len(c.batch.Items))
	}
	c.routes[i] = to
}

func (c *call) routed(i int) route {
	if c.routes == nil {
		return toPrimary
	}
	return c.routes[i]
}

// carry sends the call to the primary store, and what that did not take elsewhere.
func (s *Store) carry(ctx context.Context, c *call) ([]store.Receipt, error) {
	err := s.sendToPrimary(ctx, c)
	left := c.left()
	s.judge(c)
	if len(left) == 0 {
		if err != nil && !c.answered && c.routes == nil {
			return nil, err
		}
		return c.receipts, nil // every message has its answer
	}
	if err := s.tooLate(ctx); err != nil {
		for _, i := range left {
			if c.routed(i) != toPrimary {
				c.receipts[i].Err = &store.Error{Op: "append", Code: store.ErrUnavailable,
					Err: fmt.Errorf("not sent: %w", err)}
			}
		}
		return c.receipts, err
	}
	lost := s.spill(ctx, c, left)
	s.memorise(c, lost)
	if lost != nil {
		return c.receipts, &store.Error{Op: "append", Code: store.ErrUnavailable, Err: lost,
			Hint: "repeat the call with the same batch id"}
	}
	return c.receipts, nil
}

// tooLate reports why what the primary store did not take is not spilled.
func (s *Store) tooLate(ctx context.Context) error {
	switch {
	case s.closed.Load():
		return closedError("append")
	case ctx.Err() != nil:
		return &store.Error{Op: "append", Code: store.ErrUnavailable,
			Err:  fmt.Errorf("what was sent may be stored: %w", ctx.Err()),
			Hint: "repeat the call with the same batch id"}
	}
	return nil
}

// sendToPrimary appends to the primary store what goes there, and notes the
// answers in the receipts.
func (s *Store) sendToPrimary(ctx context.Context, c *call) error {
	batch, at := c.batch, []int(nil)
	if c.routes != nil {
		batch = store.Batch[pawl.Message]{}
		for i := range c.batch.Items {
			if c.routes[i] == toPrimary {
				batch.Items = append(batch.Items, c.batch.Items[i])
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			return nil
		}
		batch.ID = partID(c.batch.ID, "primary", batch.Items)
	}
	bound, cancel := s.primaryBound(ctx)
	defer cancel()
	receipts, err := s.primary.Append(bound, batch)
	c.answered = len(receipts) == len(batch.Items)
	for n, r := range store.Answers(len(batch.Items), receipts, err) {
		i := n
		if at != nil {
			i = at[n]
		}
		if r.ID == "" || r.Err != nil && !store.IsTopicFull(r.Err) {
			r.ID = c.receipts[i].ID
		}
		if c.receipts[i].Err == nil {
			c.receipts[i] = r
		}
	}
	return err
}

// primaryBound bounds a call of the primary store. Where the caller has a deadline,
// a quarter of the time is left for the other levels.
func (s *Store) primaryBound(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.bound(ctx, 0.75)
}

// bound bounds a call, by a part of the time that the caller has left.
func (s *Store) bound(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	bound := s.cfg.PrimaryTimeout
	if until, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Duration(float64(time.Until(until))*part))
	}
	return context.WithTimeout(ctx, bound)
}

// partID is the batch id of a part of a batch: the same messages get the same id,
// others another one. A batch without an id asks for no memory.
func partID(id, part string, items []pawl.Message) string {
	if id == "" {
		return ""
	}
	h := sha256.New()
	for _, text := range []string{id, part} {
		_, _ = fmt.Fprintf(h, "%d %s ", len(text), text) // a hash never fails
	}
	for i := range items {
		_, _ = fmt.Fprintf(h, "%d %s ", len(items[i].ID), items[i].ID)
	}
	return "spill-" + hex.EncodeToString(h.Sum(nil)[:20])
}

// left returns the messages that are to be stored elsewhere. What is too much for its
// topic is not: its sender is to wait.
func (c *call) left() (left []int) {
	for i := range c.receipts {
		switch c.routed(i) {
		case nowhere:
		case toPrimary:
			if o := c.answer(i); o == store.Failed || o == store.Unknown {
				left = append(left, i)
			}
		default:
			left = append(left, i)
		}
	}
	return left
}

// answer is the outcome of a message at the primary store, to which it makes no
// difference whether it was too much for its topic, or there already: nothing failed.
func (c *call) answer(i int) store.Outcome {
	if store.IsTopicFull(c.receipts[i].Err) {
		return store.Stored
	}
	if o := c.receipts[i].Outcome(); o != store.Duplicate {
		return o
	}
	return store.Stored
}

// judge updates the health of the primary store from the answers, by topic.
func (s *Store) judge(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed map[string]error
	var stored []string
	for i := range c.batch.Items {
		if c.routed(i) != toPrimary {
			continue
		}
		topic := c.batch.Items[i].Topic
		switch c.answer(i) {
		case store.Stored:
			if n := len(stored); n == 0 || stored[n-1] != topic {
				stored = append(stored, topic)
			}
		case store.Failed, store.Unknown:
			if failed == nil {
				failed = map[string]error{}
			}
			if why, ok := failed[topic]; !ok || says(why) { // one without an answer counts most
				failed[topic] = c.receipts[i].Err
			}
		}
	}
	for _, topic := range stored {
		s.tookTopic(topic)
	}
	for topic, why := range failed {
		if !slices.Contains(stored, topic) {
			s.failing(s.topic(topic), true, c.answered && says(why), why)
		}
	}
}

// says reports whether the primary store itself reported the failure of a message. If it
// is unreachable, its client reports it.
func says(err error) bool { return !errors.Is(err, store.ErrNoAnswer) }

// tookTopic says that the primary store took something of a topic.
func (s *Store) tookTopic(topic string) {
	t := s.topic(topic)
	if t.taken && t.err == nil {
		return // the usual case
	}
	if t.took() {
		s.wakeUp()
	}
}

// remembered is how many batches are remembered of which something was lost.
const remembered = 1000

// memorise keeps the answers to a batch of which something was lost, so that its
// repetition sends only that, with the same ids.
func (s *Store) memorise(c *call, lost *LostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.batch.ID
	_, known := s.partly[id]
	if id == "" || lost == nil && !known {
		return
	}
	if !known {
		s.order = append(s.order, id)
	}
	s.partly[id] = slices.Clone(c.receipts)
	if len(s.order) > remembered {
		delete(s.partly, s.order[0])
		s.order = s.order[1:]
	}
}

// recall gives a repeated call the answers that it had.
func (s *Store) recall(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, known := s.partly[c.batch.ID]
	if !known || len(first) != len(c.receipts) {
		return
	}
	for i := range first {
		if c.receipts[i].Err != nil {
			continue
		}
		c.receipts[i].ID = first[i].ID
		if o := first[i].Outcome(); o == store.Stored || o == store.Duplicate || o == store.Refused {
			c.receipts[i] = first[i]
			c.send(i, nowhere)
		}
	}
}
