package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// Health is the state of a cluster, its topics and the group.
type Health struct {
	Cluster    string        `json:"cluster"`
	Controller int32         `json:"controller"`
	Brokers    []string      `json:"brokers"` // HOST:PORT
	Group      GroupHealth   `json:"group"`
	Topics     []TopicHealth `json:"topics"`
	Lags       []Lag         `json:"partitions"`
	Faults     []Fault       `json:"problems"` // what is wrong, in words
}

// TopicHealth is the state of a topic.
type TopicHealth struct {
	Topic           string  `json:"topic"`
	Partitions      int     `json:"partitions"`
	Replicas        int     `json:"replicas"`
	Leaderless      []int32 `json:"leaderless,omitempty"`       // partitions that cannot be written or read
	UnderReplicated []int32 `json:"under_replicated,omitempty"` // partitions with replicas that are behind
	DeadTopic       bool    `json:"dead_topic"`                 // the topic of its dead letters is there
	Dead            int64   `json:"dead"`                       // dead letters
}

// GroupHealth is the state of the consumer group.
type GroupHealth struct {
	Name    string   `json:"name"`
	State   string   `json:"state"` // Stable, PreparingRebalance, Empty, Dead …
	Members []Member `json:"members"`
}

// Member is a process of the group.
type Member struct {
	ID         string `json:"id"`
	Client     string `json:"client"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"`
}

// Health asks the brokers for the state of the cluster, the group, and the given
// topics, or all of them.
func (s *inspector) Health(ctx context.Context, topics ...string) (*Health, error) {
	if err := s.usable(ctx, "health"); err != nil {
		return nil, err
	}
	h := &Health{Group: GroupHealth{Name: s.cfg.Group, Members: []Member{}}, Topics: []TopicHealth{}, Lags: []Lag{},
		Faults: []Fault{}}
	meta, err := s.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, s.explain("health", err)
	}
	h.Cluster, h.Controller = meta.Cluster, meta.Controller
	for _, b := range meta.Brokers {
		h.Brokers = append(h.Brokers, fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	s.brokerHealth(ctx, h, meta.Brokers.NodeIDs())
	if err := s.side.stateHealth(ctx, h); err != nil {
		return nil, err
	}
	owners, err := s.groupHealth(ctx, h)
	if err != nil {
		return nil, err
	}
	names, err := s.registry.listed(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		if !slices.Contains(names, name) {
			s.absent(ctx, h, name)
		}
	}
	for _, name := range names {
		if err := s.topicHealth(ctx, h, name, owners); err != nil {
			return nil, err
		}
	}
	h.Faults = append(h.Faults, s.Faults()...)
	return h, nil
}

// absent says why a topic is not among those that are listed: brokers list none that the
// user may not see.
func (s *inspector) absent(ctx context.Context, h *Health, name string) {
	found, err := s.topics.look(ctx, s.wire(name))
	switch {
	case errors.Is(err, store.ErrDenied):
		h.fault(name, "it may be there, but cannot be seen: %v; %s", err, store.Hint(err))
	case err != nil:
		h.fault(name, "it cannot be looked up: %v", err)
	case len(found) > 0: // it was made a moment ago
	case s.cfg.Create.Off:
		h.fault(name, "the topic is not there, and none is made here (no_create): run `pawl kafka topics ensure %s`",
			name)
	default:
		h.fault(name, "the topic is not there: the first message makes it, or `pawl kafka topics ensure %s`", name)
	}
}

func (h *Health) fault(about, what string, args ...any) {
	h.Faults = append(h.Faults, Fault{About: about, What: fmt.Sprintf(what, args...)})
}

// brokerHealth checks the settings of brokers that matter here, if the user may read
// them.
func (s *inspector) brokerHealth(ctx context.Context, h *Health, nodes []int32) {
	all, err := s.admin.DescribeBrokerConfigs(ctx, nodes...)
	if err != nil {
		return // it needs a separate right
	}
	for _, broker := range all {
		for _, c := range broker.Configs {
			n, err := strconv.Atoi(c.MaybeValue())
			if c.Key == "offset.metadata.max.bytes" && err == nil && n < gate.MaxText {
				h.fault("broker "+broker.Name,
					"it takes %d bytes of metadata with a commit, and up to %d are needed (%s): after a crash more finished work is repeated",
					n, gate.MaxText, c.Key)
			}
		}
	}
}

// groupHealth describes the group and returns which member has which partition; nil if
// that is unknown.
func (s *inspector) groupHealth(ctx context.Context, h *Health) (map[place]string, error) {
	g, err := s.describeGroup(ctx)
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return nil, s.explain("health", err)
	}
	if err != nil {
		h.fault("group "+s.cfg.Group, "its coordinator does not answer: %v", err)
		return nil, nil
	}
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return nil, s.explain("health", g.Err)
	}
	owners := map[place]string{}
	h.Group.State = g.State
	for _, m := range g.Members {
		member := Member{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				member.Partitions += len(t.Partitions)
				for _, p := range t.Partitions {
					owners[place{t.Topic, p}] = m.MemberID
				}
			}
		}
		h.Group.Members = append(h.Group.Members, member)
	}
	slices.SortFunc(h.Group.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return owners, nil
}

func (s *inspector) describeGroup(ctx context.Context) (g kadm.DescribedGroup, err error) {
	err = s.registry.coordinated(ctx, func() error {
		groups, err := s.admin.DescribeGroups(ctx, s.cfg.Group)
		g = groups[s.cfg.Group]
		return err
	})
	return g, err
}

func (s *inspector) topicHealth(ctx context.Context, h *Health, name string, owners map[place]string) error {
	wire, dead := s.wire(name), s.wire(s.cfg.deadName(name))
	details, err := s.describe(ctx, wire, dead)
	if err != nil {
		return s.explain("health", err)
	}
	d := details[wire]
	th := TopicHealth{Topic: name, Partitions: len(d.Partitions), Replicas: d.Partitions.NumReplicas(),
		DeadTopic: details[dead].Err == nil && details.Has(dead)}
	for _, p := range d.Partitions.Sorted() {
		if p.Leader < 0 {
			th.Leaderless = append(th.Leaderless, p.Partition)
		}
		if len(p.ISR) < len(p.Replicas) {
			th.UnderReplicated = append(th.UnderReplicated, p.Partition)
		}
	}
	if len(th.Leaderless) > 0 {
		h.fault(name, "no leader for partitions %v: nothing there can be written or read", th.Leaderless)
	}
	if len(th.UnderReplicated) > 0 {
		h.fault(name, "replicas of partitions %v are behind", th.UnderReplicated)
	}
	if th.DeadTopic {
		if n := len(details[dead].Partitions); n != th.Partitions {
			h.fault(name, "it has %d partitions, its dead letters %d: letters are not where their messages were",
				th.Partitions, n)
		}
		if th.Dead, err = s.dead.count(ctx, name); err != nil {
			h.fault(name, "its dead letters cannot be counted: %v", err)
		}
	} else if s.cfg.Create.Off {
		h.fault(name,
			"there is no topic for its dead letters, and none is made here: a message that fails for good stands still")
	}
	h.Topics = append(h.Topics, th)
	lags, err := s.registry.lags(ctx, name)
	if err != nil { // a partition without a leader must not hide the rest
		h.fault(name, "how much of it is left is unknown: %v", err)
		return s.explain("health", ctx.Err())
	}
	h.progress(name, s.wire(name), lags, owners)
	return nil
}

// progress says how far the group is in a topic, and whether a member works on it.
func (h *Health) progress(name, wire string, lags []Lag, owners map[place]string) {
	orphans, left, begun := 0, int64(0), false
	for i := range lags {
		l := &lags[i]
		l.Member = owners[place{wire, l.Partition}]
		if l.Left > 0 && l.Member == "" {
			orphans++
			left += l.Left
		}
		begun = begun || l.Committed >= 0
		if l.Committed >= 0 && l.Committed < l.Start {
			h.fault(name, "partition %d: retention removed %d messages that were not finished", l.Partition,
				l.Start-l.Committed)
		}
	}
	switch {
	case orphans == 0 || owners == nil:
	case len(h.Group.Members) > 0:
		h.fault(name, "%d partitions with work belong to no member of the group: does a worker name this topic?",
			orphans)
	case begun:
		h.fault(name, "%d messages are left, and group %s has no member: is a worker running?", left, h.Group.Name)
	default:
		h.fault(name,
			"%d messages are there, and group %s has never done any and has no member: if its name is right, no worker was started yet",
			left, h.Group.Name)
	}
	h.Lags = append(h.Lags, lags...)
}

// Seen is a record that was read without moving the group.
type Seen struct {
	store.Record
	Partition int32
	Offset    int64
	Timestamp time.Time
}

// Peek reads up to n records of a partition from an offset on, without moving the
// group. An offset of -1 is the first that the group has not finished.
func (s *inspector) Peek(ctx context.Context, topic string, partition int32, offset int64, n int) ([]Seen, error) {
	_, seen, err := s.peek(ctx, "peek "+partitionName(topic, partition), topic, partition, offset, n)
	return seen, err
}

func (s *inspector) peek(ctx context.Context, op, topic string, partition int32, offset int64,
	n int) (l Lag, seen []Seen, err error) {
	if err = s.usable(ctx, op); err != nil {
		return l, nil, err
	}
	if l, err = s.lag(ctx, op, topic, partition); err != nil {
		return l, nil, err
	}
	if offset < 0 {
		offset = l.next()
	}
	if offset < l.Start || offset > l.End {
		return l, nil, &store.Error{Op: op, Code: store.ErrNotFound,
			Err: fmt.Errorf("offset %d is not there: it has %d to %d", offset, l.Start, l.End-1)}
	}
	if offset == l.End || n <= 0 {
		return l, nil, nil
	}
	st := stretch{l, span{offset, l.End}}
	err = st.read(ctx, s, func(r *kgo.Record) bool {
		seen = append(seen, Seen{Record: store.Record{Message: s.message(r), EnqueuedAt: r.Timestamp},
			Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp})
		return len(seen) < n
	})
	return l, seen, err
}

func (s *inspector) lag(ctx context.Context, op, topic string, partition int32) (Lag, error) {
	if ok, err := s.registry.exists(ctx, topic); err != nil || !ok {
		if err == nil {
			err = &store.Error{Op: op, Code: store.ErrNotFound, Err: errors.New("there is no such topic")}
		}
		return Lag{}, err
	}
	lags, err := s.registry.lags(ctx, topic)
	if err != nil {
		return Lag{}, err
	}
	for _, l := range lags {
		if l.Partition == partition {
			return l, nil
		}
	}
	return Lag{}, &store.Error{Op: op, Code: store.ErrNotFound,
		Err: fmt.Errorf("it has partitions 0 to %d", len(lags)-1)}
}

// health holds the current faults by subject. A fault that was not seen for a while is
// dropped.
type health struct {
	log    *slog.Logger
	hint   func(error) (hint string, code error)
	mu     sync.Mutex
	faults map[string]Fault
}

// Fault is a fault that an operator should look at.
type Fault struct {
	About string    `json:"about"` // topic, topic/partition or group
	What  string    `json:"what"`  // in words
	Since time.Time `json:"-"`     // first seen
	Seen  time.Time `json:"-"`     // last seen
	Count int       `json:"-"`
}

func (h *health) note(about, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	f, ok := h.faults[about+what]
	if !ok || now.Sub(f.Seen) > faultAge {
		f = Fault{About: about, What: what, Since: now}
		h.log.Warn("kafka: "+what, "about", about) // logged once, however often it is seen
	}
	f.Seen = now
	f.Count++
	h.faults[about+what] = f
}

// faultAge is how long after its last sight a fault is over.
const faultAge = time.Minute

func (h *health) fetchFailed(topic string, partition int32, err error) {
	about := partitionName(topic, partition)
	if topic == "" {
		about = "group" // the group could not be joined
	}
	what := "cannot fetch: " + err.Error()
	if hint, code := h.hint(err); hint != "" && (topic == "" || errors.Is(code, store.ErrDenied)) {
		what += "; " + hint
	}
	h.note(about, "%s", what)
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// Faults returns the current faults.
func (s *inspector) Faults() []Fault {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	var fs []Fault
	for k, f := range s.health.faults {
		if time.Since(f.Seen) > faultAge {
			delete(s.health.faults, k)
			continue
		}
		fs = append(fs, f)
	}
	return fs
}
