package spill

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// compensate brings rows back until Close.
func (s *Store) compensate() {
	for try := 0; ; try++ {
		err := s.load(s.stop)
		if err == nil {
			break
		}
		s.trouble("load", err)
		if store.Sleep(s.stop, s.jitter(store.Doubled(s.cfg.ProbeFirst, s.cfg.ProbeMax, try))) != nil {
			return
		}
	}
	close(s.loaded)
	next := time.NewTimer(0)
	defer next.Stop()
	found := time.Now()
	for {
		select {
		case <-s.stop.Done():
			return
		case <-next.C:
		case <-s.wake:
		}
		if time.Since(found) > s.cfg.Poll && s.share.entries != nil {
			found = time.Now()
			if err := s.find(s.stop); err != nil {
				s.trouble("stats", err)
			}
		}
		next.Reset(s.pass())
	}
}

func (s *Store) trouble(op string, err error) {
	if s.stop.Err() == nil {
		s.cfg.Observer.Trouble(op, err)
	}
}

// find learns which topics have rows.
func (s *Store) find(ctx context.Context) error {
	figures, err := s.figures.Stats(ctx)
	if err != nil {
		return err
	}
	for i := range figures {
		f := &figures[i]
		if !s.ours(f.Name) {
			continue
		}
		s.mu.Lock()
		_, known := s.byRow[f.Name]
		s.mu.Unlock()
		if known {
			continue
		}
		topic := f.Name[len(s.cfg.Prefix):]
		if pending(f) > 0 { // a name that was cut is in the rows
			for r, err := range s.inspector.List(ctx, store.Filter{Topic: f.Name, Limit: 1}) {
				if err != nil {
					return err
				}
				if m, _, err := fromRow(r.Message, 0); err == nil {
					topic = m.Topic
				}
			}
		}
		if topicOf(s.cfg.Prefix, topic) == f.Name {
			s.rowTopic(topic)
		}
	}
	return nil
}

// load sets the latches of the keys that have rows.
func (s *Store) load(ctx context.Context) error {
	if err := s.find(ctx); err != nil {
		return err
	}
	if s.share.entries != nil {
		s.see(ctx)
	}
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.byRow))
	s.mu.Unlock()
	for _, name := range names {
		for r, err := range s.inspector.List(ctx, store.Filter{Topic: name}) {
			if err != nil {
				return err
			}
			if r.Key == nil {
				continue
			}
			s.mu.Lock()
			l := s.lane(s.byRow[name], r.Key)
			s.setLatch(l, true)
			l.last = r.ID // the last one counts: rows of a key come in their order
			s.mu.Unlock()
		}
	}
	return nil
}

// pass brings back a batch of each topic, so that none waits for another one that gets
// new rows all the time, and returns for how long there is nothing to do.
func (s *Store) pass() time.Duration {
	pause, busy := s.cfg.Poll, false
	s.mu.Lock()
	topics := map[string]*health{}
	for topic, h := range s.topics {
		if h.rows {
			topics[topic] = h
		}
	}
	s.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		if s.stop.Err() != nil {
			return 0
		}
		more, wait := s.passTopic(topic, topics[topic])
		busy, pause = busy || more, min(pause, wait)
	}
	if busy && time.Since(s.verified) < s.cfg.ProbeFirst {
		return 0 // a question for each key: not after every batch
	}
	s.verified = time.Now()
	if s.verify() {
		pause = min(pause, s.cfg.ProbeFirst)
	}
	if busy {
		return 0
	}
	return max(pause, time.Millisecond)
}

// passTopic brings back a batch of a topic. It reports whether it is worth while to go on
// at once, and when it is if not.
func (s *Store) passTopic(topic string, h *health) (more bool, pause time.Duration) {
	pause = s.cfg.Poll
	s.mu.Lock()
	resting, until := h.resting, time.Until(h.probeAt)
	s.mu.Unlock()
	if resting && until > 0 {
		return false, min(pause, until)
	}
	more, err := s.bring(topic, resting)
	if err != nil {
		s.trouble("claim", err)
		pause = min(pause, s.cfg.ProbeFirst)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// While rows rest a new message may be the probe, and wakes this: it is enough to
	// come back once, for rows that were due a little too late.
	if !more && h.err != nil && (!resting || -until < s.cfg.ProbeFirst) {
		pause = min(pause, s.cfg.ProbeFirst)
	}
	return more, pause
}

// probeLanes is of how many keys resting rows are tried, one each.
const probeLanes = 2

// bring claims rows of a topic and sends them to the primary store. It tells
// whether it is worth while to go on.
func (s *Store) bring(topic string, resting bool) (more bool, err error) {
	want := store.Want{Topic: topicOf(s.cfg.Prefix, topic), Limit: s.cfg.Batch, MaxBytes: store.MaxBatchBytes / 4}
	if resting {
		want.Limit, want.Run = probeLanes, 1
	}
	sent := time.Now()
	ds, err := s.fallback.Claim(s.stop, []store.Want{want}, store.Lease{For: s.cfg.Lease, Owner: s.cfg.Owner,
		Suspects: store.AllSuspects})
	if err != nil {
		return false, err
	}
	if len(ds) == 0 {
		return false, nil // a new message is the probe: it must find that the time has come
	}
	p := &rowBatch{Store: s, topic: topic, sent: sent, runs: s.runs(ds)}
	return p.carry(resting), nil
}

// run is consecutive rows of a lane.
type run struct {
	rows     []pawl.Delivery
	messages []pawl.Message // of the rows; as many as can be sent
	spoiled  error          // why the row behind them is none
	answers  []store.Receipt
}

// runs tells the runs of a claim apart, and latches their keys.
func (s *Store) runs(ds []pawl.Delivery) (runs []*run) {
	for i := range ds {
		d := &ds[i]
		if i == 0 || ds[i-1].Token.Lane != d.Token.Lane || ds[i-1].Token.Fence != d.Token.Fence {
			runs = append(runs, &run{})
		}
		r := runs[len(runs)-1]
		r.rows = append(r.rows, *d)
		if r.spoiled != nil {
			continue
		}
		m, _, err := fromRow(d.Message, d.Waited)
		if err != nil {
			r.spoiled = err
			continue
		}
		r.messages = append(r.messages, m)
		if m.Key != nil {
			s.mu.Lock()
			if l := s.lane(m.Topic, m.Key); !l.latched { // a row that came back, or another process's
				s.setLatch(l, true)
				l.unsure = true
				s.dirty[l.laneKey] = true
			}
			s.mu.Unlock()
		}
	}
	return runs
}

// verifyAtOnce is how many latches are verified in one pass.
const verifyAtOnce = 64

// verify asks the fallback store about latches that this process cannot judge by
// itself, and now and then about others. It reports whether there are more.
func (s *Store) verify() (more bool) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.dirty))
	if len(keys) < verifyAtOnce {
		for k, l := range s.lanes { // in no order: every one gets its turn
			if l.latched && !s.dirty[k] {
				if keys = append(keys, k); len(keys) == verifyAtOnce {
					break
				}
			}
		}
	}
	s.mu.Unlock()
	for n, k := range keys {
		if s.stop.Err() != nil {
			return false
		}
		if n == verifyAtOnce {
			return true
		}
		if err := s.verifyKey(k); err != nil {
			s.trouble("verify", err)
			return true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty) > 0
}

// verifyKey ends the latch of a key if it has no rows.
func (s *Store) verifyKey(k laneKey) error {
	s.mu.Lock()
	l := s.lanes[k]
	if l == nil || !l.latched {
		delete(s.dirty, k)
		s.mu.Unlock()
		return nil
	}
	last := l.last
	s.mu.Unlock()
	if last != "" {
		r, err := s.inspector.Get(s.stop, last)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case err == nil && r.State != store.IsDead && r.State != store.Acked &&
			r.Topic == topicOf(s.cfg.Prefix, k.topic):
			return nil // it waits
		}
	}
	return s.inTurn(k, func(c *call) error {
		// The last row may be gone before others: somebody cancelled it, or replayed one.
		rows, err := s.waiting(s.stop, k)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		l := c.lanes[0]
		if !l.latched || l.last != last {
			return nil // a row was added meanwhile
		}
		l.last, l.unsure = "", rows
		if !rows {
			delete(s.dirty, k)
		}
		return nil
	})
}

// inTurn does something while no call adds a row of the key.
func (s *Store) inTurn(k laneKey, do func(c *call) error) error {
	c := &call{}
	s.mu.Lock()
	c.lanes = c.one[:0]
	s.joinLane(c, s.lane(k.topic, []byte(k.key)))
	err := s.await(s.stop, c)
	s.mu.Unlock()
	if err == nil {
		err = do(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(c)
	return err
}
