package kafka

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/store"
)

// The result of [Store.Figures] is declared in package figures, because package observe
// exports it and must not import this one.
type (
	Figures          = figures.Kafka
	Produced         = figures.KafkaProduced
	Spread           = figures.KafkaSpread
	Traffic          = figures.KafkaTraffic
	Commits          = figures.KafkaCommits
	TopicFigures     = figures.KafkaTopic
	PartitionFigures = figures.KafkaPartition
	DeadFigures      = figures.KafkaDead
	RetentionFigures = figures.KafkaRetention
)

// Figures returns the figures. It does no I/O and is quick: it reads less than a megabyte of
// memory for a hundred partitions. It may be called at any time, also after Close.
func (s *Store) Figures() Figures {
	f := Figures{
		Produced: s.made.figures(),
		Traffic:  s.traffic.figures(),
		Commits:  s.commits.figures(),
		Assigned: s.group.rebalances.Load(), Revoked: s.group.revocations.Load(), Lost: s.group.losses.Load(),
		Dead: s.deadWrites.tally.figures(), DeadFailures: s.deadWrites.failed.Load(), Faults: len(s.Faults()),
	}
	f.Produced.Buffered, f.Produced.BufferedBytes = s.producers.buffered()
	f.Retention = s.engine.retention()
	shares := s.deadWrites.tally.shares(time.Now())
	f.Topics, f.Partitions, f.Overlaps, f.LateAcks = s.engine.allFigures()
	for i := range f.Topics {
		f.Topics[i].TopKeyShare = shares[f.Topics[i].Topic]
	}
	return f
}

func (c *committer) figures() Commits {
	failed := c.failed.Load()
	return Commits{OK: max(c.commits.Load(), failed) - failed, Failed: failed, Bare: c.bare.Load()}
}

// allFigures are the figures of the messages that this process has in hand.
func (e *engine) allFigures() (topics []TopicFigures, partitions []PartitionFigures, overlaps, lateAcks uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, wall := e.now(), e.wall()
	for name, t := range e.topics {
		f := TopicFigures{Topic: name, Consumed: t.taken, Failed: t.failed, Rescued: uint64(t.rescues)}
		for _, a := range t.partitions {
			f.Dying += int64(a.dying)
			partitions = append(partitions, a.figures(now, wall))
		}
		topics = append(topics, f)
	}
	slices.SortFunc(topics, func(a, b TopicFigures) int { return cmp.Compare(a.Topic, b.Topic) })
	slices.SortFunc(partitions, func(a, b PartitionFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return topics, partitions, e.overlaps, e.lateAcks
}

// figures are those of a partition. The caller holds the engine's mu.
func (a *assignment) figures(now, wall time.Time) PartitionFigures {
	f := PartitionFigures{
		Topic: a.topic.Name, Partition: a.partition, InHand: a.inHand, Lag: a.lag(), Backlog: a.gate.Backlog(),
	}
	if first := a.first(); first != nil {
		f.OldestAge = max(0, wall.Sub(first.rec.Timestamp))
	}
	if since := a.owedSince(); since != 0 {
		f.CommitLag = max(0, now.Sub(time.Unix(0, since)))
	}
	return f
}

// first returns the first message in hand that is not finished, nil if there is
// none.
func (a *assignment) first() *flight {
	if a.inHand == 0 {
		return nil
	}
	for offset := a.gate.Base(); offset < a.gate.Tail(); offset++ {
		if f := a.find(offset); f != nil {
			return f
		}
	}
	return nil
}

// latencyBounds are the bounds of the time to produce a record, in seconds.
var latencyBounds = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// made counts the outcomes of produced records. It costs a few atomic additions per
// record.
type made struct {
	stored, refused, unknown atomic.Uint64
	nanos, left              atomic.Int64
	counts                   [len(latencyBounds) + 1]atomic.Uint64
}

// note takes note of the outcome of a record that was handed to the client then.
func (m *made) note(began time.Time, err error) {
	switch {
	case err == nil:
		took := time.Since(began)
		m.stored.Add(1)
		m.nanos.Add(int64(took))
		m.counts[sort.SearchFloat64s(latencyBounds[:], took.Seconds())].Add(1)
	case isPermanent(err) || outcome(err) != store.ErrUnknown:
		m.refused.Add(1)
	default:
		m.unknown.Add(1)
	}
}

func (m *made) figures() Produced {
	p := Produced{Stored: m.stored.Load(), Refused: m.refused.Load(), Unknown: m.unknown.Load(),
		LeftAtFlush: m.left.Load()}
	p.Took = Spread{Bounds: latencyBounds[:], Counts: make([]uint64, len(m.counts)), Sum: time.Duration(m.nanos.Load())}
	for i := range m.counts {
		p.Took.Counts[i] = m.counts[i].Load()
	}
	return p
}

// deathTally counts the dead letters that were written.
type deathTally struct {
	mu sync.Mutex
	of map[string]*topicDeaths
}

// topicDeaths are those of a topic: how many of each kind, and the keys of the last ones,
// in a ring.
type topicDeaths struct {
	byKind map[string]*DeadFigures
	keys   [128]keyOfDead
	n      int // ever
}

// maxKinds is how many kinds of a topic are told apart; handlers may make up any.
const maxKinds = 100

type keyOfDead struct {
	hash uint64 // 0: without a key
	at   time.Time
}

// shareAge is for how long a dead letter counts for the share of its key.
const shareAge = time.Hour

// keySeed hides keys, and makes collisions hard to provoke.
var keySeed = maphash.MakeSeed()

// note takes note of a dead letter that was written.
func (t *deathTally) note(topic, kind string, key []byte, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*topicDeaths{}
	}
	d := t.of[topic]
	if d == nil {
		d = &topicDeaths{byKind: map[string]*DeadFigures{}}
		t.of[topic] = d
	}
	if d.byKind[kind] == nil && len(d.byKind) >= maxKinds {
		kind = "other"
	}
	f := d.byKind[kind]
	if f == nil {
		f = &DeadFigures{Topic: topic, Kind: kind}
		d.byKind[kind] = f
	}
	f.Written++
	f.LastAt = at
	k := keyOfDead{at: at}
	if key != nil {
		k.hash = maphash.Bytes(keySeed, key) | 1
	}
	d.keys[d.n%len(d.keys)] = k
	d.n++
}

func (t *deathTally) figures() []DeadFigures {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []DeadFigures
	for _, d := range t.of {
		for _, f := range d.byKind {
			all = append(all, *f)
		}
	}
	slices.SortFunc(all, func(a, b DeadFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// shares are the proportions of the recent dead letters that belong to the most
// frequent key, by topic.
func (t *deathTally) shares(now time.Time) map[string]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]float64{}
	for topic, d := range t.of {
		count, n, most := map[uint64]int{}, 0, 0
		for _, k := range d.keys[:min(d.n, len(d.keys))] {
			if now.Sub(k.at) > shareAge {
				continue
			}
			n++
			if k.hash != 0 {
				count[k.hash]++
				most = max(most, count[k.hash])
			}
		}
		if n > 0 {
			all[topic] = float64(most) / float64(n)
		}
	}
	return all
}

// traffic counts requests and bytes, for all clients of a store. It is a hook of the
// client.
type traffic struct {
	mu    sync.Mutex
	count Traffic
}

var (
	_ kgo.HookBrokerConnect    = (*traffic)(nil)
	_ kgo.HookBrokerDisconnect = (*traffic)(nil)
	_ kgo.HookBrokerE2E        = (*traffic)(nil)
	_ kgo.HookBrokerThrottle   = (*traffic)(nil)
)

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (t *traffic) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.count.ConnectFailures++
	} else {
		t.count.Connects++
	}
}

// OnBrokerDisconnect implements [kgo.HookBrokerDisconnect].
func (t *traffic) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Disconnects++
}

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (t *traffic) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Requests++
	t.count.BytesWritten += uint64(max(e.BytesWritten, 0))
	t.count.BytesRead += uint64(max(e.BytesRead, 0))
	if e.Err() == nil {
		return
	}
	t.count.RequestFailures++
	if key == kmsg.Produce.Int16() {
		t.count.ProduceFailures++
	}
}

// OnBrokerThrottle implements [kgo.HookBrokerThrottle].
func (t *traffic) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Throttled += d
}

func (t *traffic) figures() Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// logEvery is how often the figures are logged.
const logEvery = time.Minute

func (s *Store) logLoop() {
	for store.Sleep(s.ctx, logEvery) == nil {
		s.logFigures()
	}
}

func (s *Store) logFigures() {
	if !s.cfg.Logger.Enabled(s.ctx, slog.LevelDebug) {
		return
	}
	f := s.Figures()
	var consumed, failed uint64
	for _, t := range f.Topics {
		consumed, failed = consumed+t.Consumed, failed+t.Failed
	}
	p, t := f.Produced, f.Traffic
	s.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, "figures of Kafka",
		slog.Group("produced", "stored", p.Stored, "refused", p.Refused, "unknown", p.Unknown, "buffered", p.Buffered),
		slog.Uint64("consumed", consumed), slog.Uint64("attempts_failed", failed),
		slog.Int("partitions", len(f.Partitions)),
		slog.Group("commits", "ok", f.Commits.OK, "failed", f.Commits.Failed, "bare", f.Commits.Bare),
		slog.Group("group", "assigned", f.Assigned, "revoked", f.Revoked, "lost", f.Lost),
		slog.Group("client", "connects", t.Connects, "connect_failures", t.ConnectFailures, "disconnects",
			t.Disconnects,
			"requests", t.Requests, "request_failures", t.RequestFailures, "bytes_written", t.BytesWritten,
			"bytes_read", t.BytesRead,
			"throttled", t.Throttled),
	)
}
