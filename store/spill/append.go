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
)

// Append implements [store.Store]. What it accepts is in the primary store, with
// the dead-letter route, or in the fallback store. What no level took comes back
// with a [*LostError] and an error in its receipt.
func (s *Store) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := store.Admit(batch)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx, batch); err != nil {
		return nil, err
	}
	s.see(ctx)
	c := &call{batch: batch, receipts: receipts}
	defer func() {
		if c.lanes != nil { // a store or observer panicked: the keys must not wait for ever
			s.abandon(c)
		}
	}()
	s.mu.Lock()
	if len(s.partly) > 0 {
		s.recall(c)
	}
	c.setIDs()
	if !s.cfg.Pipelined || s.latched.Load() > 0 || s.share.others.Load() {
		s.join(c) // otherwise it is soon enough when the call has failed
	}
	if c.blocked > 0 && !s.mayPass(c) {
		if err := s.await(ctx, c); err != nil {
			s.leave(c)
			s.mu.Unlock()
			return nil, err
		}
	}
	ask := s.route(c)
	s.mu.Unlock()
	if len(ask) > 0 {
		if err := s.ask(ctx, c, ask); err != nil {
			s.abandon(c)
			return nil, err
		}
	}
	return s.carry(ctx, c)
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

// route decides where each message goes first, and returns the lanes of which only
// the fallback store knows, and whether they are latched. Store.mu is locked.
func (s *Store) route(c *call) (ask map[*lane]bool) {
	for _, l := range c.lanes {
		if l.latched && l.last == "" && !l.unsure {
			s.setLatch(l, false)
		}
		if s.share.others.Load() || l.latched && l.unsure && l.last == "" {
			if ask == nil {
				ask = map[*lane]bool{}
			}
			ask[l] = l.latched
		}
	}
	var probing map[*health]bool
	for i := range c.batch.Items {
		if c.receipts[i].Err != nil || c.routed(i) == nowhere {
			continue
		}
		m := &c.batch.Items[i]
		h := s.health(m.Topic)
		to := toPrimary
		switch {
		case m.Key != nil && s.latched.Load() > 0 && s.lanes[laneKey{m.Topic, string(m.Key)}].latched:
			to = behind
		case !h.down || probing[h]:
		case time.Now().Before(h.probeAt):
			to = aside
		default: // this call is the probe
			s.postpone(h)
			if probing == nil {
				probing = map[*health]bool{}
			}
			probing[h] = true
		}
		if to != toPrimary {
			c.send(i, to)
		}
	}
	return ask
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

// ask asks the fallback store whether lanes have rows, and routes their messages by
// the answer; latched says which of them were when the messages were routed. The
// call is first in all its lanes: nobody adds a row here.
func (s *Store) ask(ctx context.Context, c *call, latched map[*lane]bool) error {
	has := map[*lane]bool{}
	for l := range latched {
		waiting, err := s.waiting(ctx, l.laneKey)
		if ctx.Err() != nil {
			return &store.Error{Op: "append", Err: ctx.Err()}
		}
		if err != nil { // then it cannot be spilled to, either; what is known counts
			s.blind.Add(1)
			continue
		}
		has[l] = waiting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l, before := range latched {
		waiting, known := has[l]
		if !known {
			continue
		}
		if l.latched && !before {
			waiting = true // meanwhile the compensator has found a row
		}
		if waiting != l.latched {
			s.setLatch(l, waiting)
			l.unsure = waiting
		}
		c.sendLane(l, waiting)
	}
	return nil
}

// sendLane sets where the messages of a lane go: behind its rows, or, if it was
// thought to have some, to the primary store.
func (c *call) sendLane(l *lane, waiting bool) {
	for i := range c.batch.Items {
		m := &c.batch.Items[i]
		if c.receipts[i].Err != nil || c.routed(i) == nowhere || m.Topic != l.topic || m.Key == nil ||
			string(m.Key) != l.key {
			continue
		}
		if waiting {
			c.send(i, behind)
		} else if c.routed(i) == behind {
			c.send(i, toPrimary)
		}
	}
}

// waiting asks the fallback store whether a key has rows.
func (s *Store) waiting(ctx context.Context, k laneKey) (bool, error) {
	for _, err := range s.inspector.List(ctx, store.Filter{Topic: topicOf(s.cfg.Prefix, k.topic), Key: []byte(k.key),
		Limit: 1}) {
		return err == nil, err
	}
	return false, ctx.Err()
}

// abandon removes a call that ends early from its lanes.
func (s *Store) abandon(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(c)
}

// carry sends the call to the primary store, and what that did not take elsewhere.
func (s *Store) carry(ctx context.Context, c *call) ([]store.Receipt, error) {
	err := s.sendToPrimary(ctx, c)
	left := c.left()
	s.mu.Lock()
	s.judge(c)
	if len(left) > 0 {
		err = s.awaitTurn(ctx, c)
	} else if c.answered || c.routes != nil {
		err = nil // every message has its answer
	}
	if len(left) == 0 || err != nil {
		s.leave(c)
		s.mu.Unlock()
		if err != nil {
			return c.unfinished(left, err), err
		}
		return c.receipts, nil
	}
	s.mu.Unlock()
	lost := s.spill(ctx, c, left)
	s.mu.Lock()
	s.leave(c)
	s.memorise(c, lost)
	s.mu.Unlock()
	if lost != nil {
		return c.receipts, &store.Error{Op: "append", Code: store.ErrUnavailable, Err: lost,
			Hint: "repeat the call with the same batch id"}
	}
	return c.receipts, nil
}

// unfinished are the receipts of a call that ends before what is left of it was
// spilled; none if nothing is: then the error is that of the primary store. What was
// not sent anywhere is not stored.
func (c *call) unfinished(left []int, err error) []store.Receipt {
	if len(left) == 0 {
		return nil
	}
	for _, i := range left {
		if c.routed(i) != toPrimary {
			c.receipts[i].Err = &store.Error{Op: "append", Code: store.ErrUnavailable,
				Err: fmt.Errorf("not sent: %w", err)}
		}
	}
	return c.receipts
}

// awaitTurn waits until the call is first in its lanes, so that what failed is spilled in
// the order of the calls. Store.mu is locked.
func (s *Store) awaitTurn(ctx context.Context, c *call) error {
	if s.closed.Load() {
		return closedError("append")
	}
	err := ctx.Err()
	if err == nil {
		if c.lanes == nil {
			s.join(c)
		}
		c.spilling = true
		for _, l := range c.lanes {
			l.spilling++
		}
		err = s.await(ctx, c)
	}
	if err != nil && ctx.Err() != nil {
		return &store.Error{Op: "append", Code: store.ErrUnavailable,
			Err:  fmt.Errorf("what was sent may be stored: %w", ctx.Err()),
			Hint: "repeat the call with the same batch id"}
	}
	return err
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

// judge updates the health of the primary store from the answers, by topic. Store.mu is
// locked.
func (s *Store) judge(c *call) {
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
			s.failing(s.health(topic), true, c.answered && says(why), why)
		}
	}
}

// says reports whether the primary store itself reported the failure of a message. If it
// is unreachable, its client reports it.
func says(err error) bool { return !errors.Is(err, store.ErrNoAnswer) }

// tookTopic says that the primary store took something of a topic.
func (s *Store) tookTopic(topic string) {
	h := s.health(topic)
	if h.taken && h.err == nil {
		return // the usual case
	}
	if h.took() {
		s.wakeUp()
	}
}

// remembered is how many batches are remembered of which something was lost.
const remembered = 1000

// memorise keeps the answers to a batch of which something was lost, so that its
// repetition sends only that, with the same ids. Store.mu is locked.
func (s *Store) memorise(c *call, lost *LostError) {
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

// recall gives a repeated call the answers that it had. Store.mu is locked.
func (s *Store) recall(c *call) {
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
