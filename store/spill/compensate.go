package spill

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// compensate brings rows back until Close.
func (s *Store) compensate() {
	for try := 0; s.load(s.stop) != nil; try++ {
		if store.Sleep(s.stop, jitter(store.Doubled(s.cfg.pace.probeFirst, s.cfg.pace.probeMax, try))) != nil {
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
		if time.Since(found) > s.cfg.pace.poll {
			found = time.Now()
			_ = s.find(s.stop) // it is tried again
		}
		next.Reset(s.pass())
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
		if !ours(f.Name) || pending(f) == 0 {
			continue
		}
		name := f.Name[len(prefix):]
		for r, err := range s.inspector.List(ctx, store.Filter{Topic: f.Name, Limit: 1}) {
			if err != nil {
				return err
			}
			if m, _, err := fromRow(r.Message, 0); err == nil {
				name = m.Topic // that of the rows may have been cut
			}
		}
		if topicOf(name) == f.Name {
			s.mu.Lock()
			s.hasRows(s.topic(name))
			s.mu.Unlock()
		}
	}
	return nil
}

// load learns which keys have rows.
func (s *Store) load(ctx context.Context) error {
	if err := s.find(ctx); err != nil {
		return err
	}
	for _, t := range s.withRows() {
		for r, err := range s.inspector.List(ctx, store.Filter{Topic: topicOf(t.name)}) {
			if err != nil {
				return err
			}
			if r.Key != nil {
				s.mu.Lock()
				t.latched[string(r.Key)] = r.ID // the last one counts: rows of a key come in their order
				s.mu.Unlock()
			}
		}
	}
	return nil
}

// withRows returns the topics that may have rows, by name.
func (s *Store) withRows() (topics []*topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		if s.topics[name].waiting {
			topics = append(topics, s.topics[name])
		}
	}
	return topics
}

// pass brings back a batch of each topic, so that none waits for another one that gets
// new rows all the time, and returns for how long there is nothing to do.
func (s *Store) pass() time.Duration {
	pause, busy := s.cfg.pace.poll, false
	for _, t := range s.withRows() {
		if s.stop.Err() != nil {
			return 0
		}
		more, wait := s.passTopic(t)
		busy, pause = busy || more, min(pause, wait)
	}
	if busy {
		return 0
	}
	return max(pause, time.Millisecond)
}

// passTopic brings back a batch of a topic. It reports whether it is worth while to go on
// at once, and when it is if not.
func (s *Store) passTopic(t *topic) (more bool, pause time.Duration) {
	pause = s.cfg.pace.poll
	s.mu.Lock()
	resting, until := t.resting, time.Until(t.probeAt)
	s.mu.Unlock()
	if resting && until > 0 {
		return false, min(pause, until)
	}
	more, err := s.bring(t, resting)
	if err != nil {
		pause = min(pause, s.cfg.pace.probeFirst)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !more && t.looking == nil {
		s.read(s.stop, t) // was that the last row?
	}
	// While rows rest a new message may be the probe, and wakes this: it is enough to
	// come back once, for rows that were due a little too late.
	if !more && t.err != nil && (!resting || -until < s.cfg.pace.probeFirst) {
		pause = min(pause, s.cfg.pace.probeFirst)
	}
	return more, pause
}

// probeLanes is of how many keys resting rows are tried, one each.
const probeLanes = 2

// bring claims rows of a topic and sends them to the primary store. It tells
// whether it is worth while to go on.
func (s *Store) bring(t *topic, resting bool) (more bool, err error) {
	want := store.Want{Topic: topicOf(t.name), Limit: s.cfg.pace.batch, MaxBytes: store.MaxBatchBytes / 4}
	if resting {
		want.Limit, want.Run = probeLanes, 1
	}
	sent := time.Now()
	ds, err := s.fallback.Claim(s.stop, []store.Want{want}, store.Lease{For: s.cfg.pace.lease,
		Suspects: backend.AllSuspects})
	if err != nil {
		return false, err
	}
	if len(ds) == 0 {
		return false, nil // a new message is the probe: it must find that the time has come
	}
	p := &rowBatch{Store: s, topic: t, sent: sent, runs: runs(ds)}
	return p.carry(resting), nil
}

// run is consecutive rows of a lane.
type run struct {
	rows     []pawl.Delivery
	messages []pawl.Message // of the rows; as many as can be sent
	spoiled  error          // why the row behind them is none
	answers  []store.Receipt
}

// runs tells the runs of a claim apart.
func runs(ds []pawl.Delivery) (runs []*run) {
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
	}
	return runs
}
