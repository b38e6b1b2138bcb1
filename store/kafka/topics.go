package kafka

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// registry has the topics: their settings, pauses and figures.
type registry struct {
	*core
	side   *side
	pauses pauseEnds
}

// Keys of the state: settings and pauses of topics.
const (
	keyTopic = "topic/"
	keyPause = "pause/"
)

// settingsOf returns the settings of a topic as they were last read.
func (s *registry) settingsOf(name string) (store.Topic, int64) {
	t := store.NewTopic(name)
	version, ok := s.state.readJSON(keyTopic+name, &t)
	if !ok {
		t = store.NewTopic(name)
	}
	t.Name = name
	return t, version
}

func (s *registry) pauseOf(name string) *store.Pause {
	var p store.Pause
	version, ok := s.state.readJSON(keyPause+name, &p)
	if !ok {
		return nil
	}
	if !p.Until.IsZero() {
		now := s.engine.now()
		if p.Until = s.pauses.note(name, version, &p, s.cfg.Now(), now); !p.Until.After(now) {
			return nil
		}
	}
	return &p
}

// heed passes settings and pauses of a topic to the engine.
func (s *registry) heed(name string) {
	s.state.heeding.Lock() // so that an earlier read does not overwrite a later one
	defer s.state.heeding.Unlock()
	settings, _ := s.settingsOf(name)
	s.engine.heed(settings, s.pauseOf(name))
}

// Topic implements [store.Topics].
func (s *registry) Topic(ctx context.Context, name string) (store.Topic, error) {
	if err := s.side.upToDate(ctx, "topic "+name); err != nil {
		return store.Topic{}, err
	}
	t, version := s.settingsOf(name)
	if version > 0 {
		return t, nil
	}
	there, err := s.exists(ctx, name)
	if err == nil && !there {
		err = &store.Error{Op: "topic " + name, Code: store.ErrNotFound}
	}
	return t, err
}

func (s *registry) exists(ctx context.Context, name string) (bool, error) {
	missing, err := s.topics.missing(ctx, slices.Values([]string{s.wire(name)}))
	return len(missing) == 0 && err == nil, err
}

// Declare implements [store.Topics].
func (s *registry) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if err := d.Validate(); err != nil {
		return store.Topic{}, err
	}
	if d.Tail != nil && *d.Tail {
		return store.Topic{}, noTail("declare topic " + d.Name)
	}
	return s.change(ctx, "declare topic "+d.Name, d.Name, d.Apply)
}

// Alter implements [store.Topics].
func (s *registry) Alter(ctx context.Context, t store.Topic) (store.Topic, error) {
	if err := t.Validate(); err != nil {
		return store.Topic{}, err
	}
	if t.Tail {
		return store.Topic{}, noTail("alter topic " + t.Name)
	}
	if _, err := s.Topic(ctx, t.Name); err != nil {
		return store.Topic{}, err
	}
	return s.change(ctx, "alter topic "+t.Name, t.Name, t.Replace)
}

func noTail(op string) error {
	return &store.Error{Op: op, Code: store.ErrUnsupported,
		Err:  errors.New("retries at the tail: a log is read in its order"),
		Hint: "leave retry at head, or use a store that keeps delays"}
}

// change changes the settings of a topic; if another process did so at the same time,
// it reads them again.
func (s *registry) change(ctx context.Context, op, name string,
	to func(now store.Topic, empty bool) (store.Topic, error)) (store.Topic, error) {
	if err := s.usable(ctx, op); err != nil {
		return store.Topic{}, err
	}
	if err := s.topics.ensure(ctx, map[string]bool{s.wire(name): true}); err != nil {
		return store.Topic{}, err
	}
	for {
		if err := s.state.follow(ctx); err != nil {
			return store.Topic{}, err
		}
		now, version := s.settingsOf(name)
		empty, err := s.empty(ctx, name)
		if err != nil {
			return store.Topic{}, err
		}
		next, err := to(now, empty)
		if err == nil {
			err = next.RefuseBound(op)
		}
		if err != nil || next == now {
			return next, err
		}
		err = s.side.putJSON(ctx, keyTopic+name, next, version, s.cfg.ClientID)
		if err == nil {
			s.heed(name)
			return next, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return now, err
		}
	}
}

// empty reports whether everything in a topic is finished.
func (s *registry) empty(ctx context.Context, name string) (bool, error) {
	st, err := s.count(ctx, name)
	return st.Waiting+st.Delayed+st.Leased == 0, err
}

// Pause implements [store.Topics].
func (s *registry) Pause(ctx context.Context, topic string, d time.Duration, by, reason string) error {
	if _, err := s.Topic(ctx, topic); err != nil {
		return err
	}
	now := s.cfg.Now()
	p := store.Pause{Since: now, By: store.Text(by), Reason: store.Text(reason)}
	if d > 0 {
		p.Until = now.Add(d)
	}
	err := s.side.putJSON(ctx, keyPause+topic, p, store.AnyVersion, s.cfg.ClientID)
	s.heed(topic)
	return err
}

// Resume implements [store.Topics].
func (s *registry) Resume(ctx context.Context, topic string) error {
	if _, err := s.Topic(ctx, topic); err != nil {
		return err
	}
	if s.pauseOf(topic) == nil {
		return nil
	}
	_, err := s.side.PutState(ctx, keyPause+topic, nil, store.AnyVersion, s.cfg.ClientID)
	s.heed(topic)
	return err
}

// Stats implements [store.Topics]. Waiting and leased are the messages that the group has not
// finished: in partitions of other processes all of them are waiting. The totals follow from
// offsets: Appended counts all records that were ever written, Acked those that the group is
// done with.
func (s *registry) Stats(ctx context.Context, topics ...string) ([]store.TopicStats, error) {
	if err := s.side.upToDate(ctx, "stats"); err != nil {
		return nil, err
	}
	names, err := s.listed(ctx, topics)
	if err != nil {
		return nil, err
	}
	all := make([]store.TopicStats, 0, len(names))
	for _, name := range names {
		st, err := s.count(ctx, name)
		if err != nil {
			return nil, err
		}
		st.Paused = s.pauseOf(name)
		all = append(all, st)
	}
	return all, nil
}

// listed returns the names of topics: those asked for that are there, or all that
// were ever used as one.
func (s *registry) listed(ctx context.Context, topics []string) ([]string, error) {
	details, err := s.admin.ListTopics(ctx)
	if err != nil {
		return nil, s.explain("list topics", err)
	}
	var names []string
	for wire, t := range details {
		name := s.plain(wire)
		_, own := s.Owner(name)
		hidden := t.IsInternal || !strings.HasPrefix(wire, s.cfg.Prefix) || own
		if t.Err == nil && (len(topics) == 0 && !hidden || slices.Contains(topics, name)) {
			names = append(names, name)
		}
	}
	for _, name := range topics { // one just made may not be told of yet
		if _, ok := s.topics.known(s.wire(name)); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (s *registry) count(ctx context.Context, name string) (store.TopicStats, error) {
	settings, _ := s.settingsOf(name)
	st := store.TopicStats{Topic: settings}
	lags, err := s.lags(ctx, name)
	if err != nil {
		return st, err
	}
	for _, l := range lags {
		st.Appended += l.End
		st.Acked += l.End - l.Left
		st.Waiting += l.Left
	}
	mine := s.engine.figures(name)
	st.Leased, st.Stuck, st.Delayed = mine.leased, mine.stuck, mine.delayed
	st.Waiting = max(0, st.Waiting-st.Leased-st.Delayed)
	st.Rescues, st.Retried, st.Deaths = mine.rescues, mine.retried, mine.died
	switch st.OldestWaiting = mine.oldest; {
	case st.Waiting == 0:
		st.OldestWaiting = 0
	case mine.oldest == 0:
		st.OldestWaiting = -1 // it is not in hand: offsets do not contain the time
	}
	if st.Dead, err = s.dead.count(ctx, name); err != nil {
		return st, err
	}
	st.Acked = max(0, st.Acked-st.Dead)
	return st, nil
}

// Lag is how far the group is in a partition.
type Lag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`     // first offset that is there
	End       int64  `json:"end"`       // behind the last one
	Committed int64  `json:"committed"` // first offset that is not finished; -1: nothing was committed yet
	Left      int64  `json:"lag"`       // messages that are not finished
	Gated     int64  `json:"gate"`      // finished behind the first one that is not, which the offset cannot pass
	Member    string `json:"member,omitempty"`

	cp gate.Checkpoint // committed with it; zero where it is not one of this log
}

// next is the first offset that may be unfinished.
func (l *Lag) next() int64 { return max(l.Committed, l.Start) }

// gated is how many messages are finished behind the first one that is not.
func (l *Lag) gated() int64 { return max(0, l.End-l.next()-l.Left) }

// lags returns how far the group is in the partitions of a topic: by its commits and, for
// partitions of this process, by its own progress.
func (s *registry) lags(ctx context.Context, name string) ([]Lag, error) {
	wire := s.wire(name)
	starts, ends, err := s.bounds(ctx, "stats", wire)
	if err != nil {
		return nil, err
	}
	committed, err := s.committed(ctx)
	if err != nil {
		return nil, s.explain("stats", err)
	}
	known, ok := s.topics.known(wire)
	if !ok { // what is committed counts for one incarnation of the topic: which is it?
		found, err := s.topics.look(ctx, wire)
		if err != nil {
			return nil, err
		}
		known = found[wire]
	}
	var lags []Lag
	for p, end := range ends {
		l := Lag{Topic: name, Partition: p, Start: starts[p], End: end}
		var text string
		if l.Committed, text, err = s.committedAt("stats", committed, wire, p); err != nil {
			return nil, err
		}
		l.cp, _ = gate.Decode(l.Committed, known.source(), text)
		l.Left = s.left(&l)
		l.Gated = l.gated()
		lags = append(lags, l)
	}
	slices.SortFunc(lags, func(a, b Lag) int { return cmp.Compare(a.Partition, b.Partition) })
	return lags, nil
}

// committed returns the commits of the group. It waits for a coordinator that is not there yet,
// as in a cluster that was just started.
func (s *registry) committed(ctx context.Context) (offsets kadm.OffsetResponses, err error) {
	err = s.coordinated(ctx, func() error {
		offsets, err = s.admin.FetchOffsets(ctx, s.cfg.Group)
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	return offsets, err
}

// coordinated repeats a call while the coordinator of the group is on its way.
func (s *registry) coordinated(ctx context.Context, call func() error) error {
	return again(ctx, coordinatorWait, func(err error) bool {
		return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) ||
			errors.Is(err, kerr.NotCoordinator)
	}, call)
}

const coordinatorWait = 15 * time.Second

// left is how many messages of a partition are not finished.
func (s *registry) left(l *Lag) int64 {
	if n, end, ok := s.engine.unfinished(l.Topic, l.Partition); ok {
		return n + max(0, l.End-end)
	}
	left := l.End - l.next()
	if l.Committed >= l.Start {
		left -= int64(l.cp.Len())
	}
	return max(0, left)
}

// unfinished is how many messages of a partition that is ours were fetched and are
// not finished, and up to where it was fetched.
func (e *engine) unfinished(name string, partition int32) (n, end int64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.at(name, partition)
	if a == nil || a.state != live || a.gate.Tail() == 0 { // 0: nothing was fetched or committed yet
		return 0, 0, false
	}
	return int64(a.inHand), a.gate.Tail(), true
}

// inHand counts the messages of a topic in hand.
type inHand struct {
	leased, stuck, delayed, rescues, retried int64
	died                                     store.Deaths
	oldest                                   time.Duration
}

func (e *engine) figures(name string) (f inHand) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topics[name]
	if t == nil {
		return f
	}
	now := e.now()
	f.rescues, f.retried, f.died = t.rescues, t.retried, t.died
	for _, a := range t.partitions {
		for _, m := range a.ring {
			switch {
			case m == nil:
			case m.state == leased:
				f.leased++
				l := &m.lane.lease
				if (store.LeaseRecord{StartedAt: time.Unix(0, l.started), Deadline: time.Unix(0, l.hard)}).Stuck(now) {
					f.stuck++
				}
			case m.state == waiting && m.lane.state == closed && m.lane.head == m:
				f.delayed++
			case m.state == waiting:
				f.oldest = max(f.oldest, e.wall().Sub(m.rec.Timestamp))
			}
		}
	}
	return f
}

// learn reads the settings of a topic that is about to be consumed, and its dead
// letters if it parks.
func (s *registry) learn(ctx context.Context, name string) error {
	if err := s.state.follow(ctx); err != nil {
		return err
	}
	s.heed(name)
	if t, _ := s.settingsOf(name); t.Park {
		return s.dead.of(name).tail.follow(ctx)
	}
	return nil
}

// heed records the settings and the pause of a topic.
func (e *engine) heed(settings store.Topic, pause *store.Pause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topic(settings.Name)
	t.Topic, t.pause = settings, pause
	e.wake(t.Name)
}

// watchState lets the engine follow the changes that any process makes to the state.
func (s *Store) watchState(key string) {
	prefix, name, _ := strings.Cut(key, "/")
	switch prefix + "/" {
	case keyTopic, keyPause:
		s.background(func() { s.heed(name) })
	case keySkip:
		s.background(func() { s.heedSkip(key) })
	}
}

// Full implements [store.Topics]: no topic is full before its disks are.
func (s *registry) Full(context.Context, ...string) ([]*store.TopicFullError, error) { return nil, nil }
