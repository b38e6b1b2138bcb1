package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// group is this process as a member of the consumer group. It joins with the first
// claim.
type group struct {
	s *Store

	mu      sync.Mutex
	client  *kgo.Client
	end     context.CancelFunc // of all that the client does
	topics  map[string]bool    // subscribed
	missing map[string]bool    // wanted, but not there
	left    bool
	names   sync.Map        // topic id → name
	ctx     context.Context // until this process leaves the group
	leaving context.CancelFunc
	from    map[place]kgo.Offset // where to read from, if not from what is committed: of fetched and adjust

	feedMu sync.Mutex // serialises what is taken in; guards overflow of assignments
	fed    chan struct{}

	rebalances, revocations, losses atomic.Uint64
}

func (g *group) init(s *Store) {
	g.s, g.topics, g.missing, g.from = s, map[string]bool{}, map[string]bool{}, map[place]kgo.Offset{}
	g.fed = make(chan struct{}, 1)
	g.ctx, g.leaving = context.WithCancel(s.ctx)
}

// subscribe makes this process a consumer of the topics that are wanted.
func (s *Store) subscribe(ctx context.Context, wants []store.Want) error {
	g := &s.group
	g.mu.Lock()
	defer g.mu.Unlock()
	var fresh []string
	for _, w := range wants {
		if !g.topics[w.Topic] && !g.missing[w.Topic] && pawl.ValidTopic(w.Topic) == nil {
			fresh = append(fresh, s.wire(w.Topic))
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	found, err := s.topics.look(ctx, fresh...)
	if err != nil {
		return err
	}
	s.state.watch()
	for _, name := range fresh {
		if err := s.learn(ctx, s.plain(name)); err != nil {
			return err
		}
		if _, ok := found[name]; !ok {
			g.miss(s.plain(name))
		}
	}
	return g.join(found)
}

// join adds topics to the subscription. The caller holds mu.
func (g *group) join(found map[string]entry) error {
	var names []string
	for name, t := range found {
		g.names.Store([16]byte(t.id), name)
		g.topics[g.s.plain(name)] = true
		delete(g.missing, g.s.plain(name))
		names = append(names, name)
	}
	switch {
	case len(names) == 0 || g.left:
		return nil
	case g.client != nil:
		g.client.AddConsumeTopics(names...)
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	client, err := kgo.NewClient(append(g.s.consumerOptions(names), kgo.WithContext(ctx))...)
	if err != nil {
		end()
		return &store.Error{Op: "join group " + g.s.cfg.Group, Code: store.ErrInvalid, Err: err}
	}
	g.client, g.end = client, end
	g.s.commits.client.Store(client)
	g.s.background(g.pollLoop)
	g.s.background(g.feedLoop)
	g.s.background(g.s.commits.loop)
	return nil
}

// findLoop looks for topics that were wanted before they were there.
func (g *group) findLoop() {
	for store.Sleep(g.s.ctx, lookAgain) == nil {
		g.mu.Lock()
		var names []string
		for name := range g.missing {
			names = append(names, g.s.wire(name))
			if g.s.cfg.Create.Off {
				g.s.health.note(name, "the topic is not there, and none is made here (no_create): "+
					"nothing is carried out until somebody runs `pawl kafka topics ensure %s`", name)
			}
		}
		g.mu.Unlock()
		found, err := g.s.topics.look(g.s.ctx, names...)
		if err != nil {
			continue
		}
		g.mu.Lock()
		err = g.join(found)
		over := len(g.missing) == 0
		g.mu.Unlock()
		if err != nil {
			g.s.cfg.Logger.Error("cannot consume", "error", err)
		}
		if over {
			return
		}
	}
}

// lookAgain is how soon a topic is noticed that was claimed from before it was created.
const lookAgain = time.Second

func (g *group) pollLoop() {
	for {
		fetches := g.client.PollRecords(g.s.ctx, pollCount)
		if fetches.IsClientClosed() || g.s.ctx.Err() != nil {
			g.client.AllowRebalance()
			return
		}
		fetches.EachError(g.failed)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				g.accept(g.s.plain(p.Topic), &p.FetchPartition)
			}
		})
		g.client.AllowRebalance()
		g.awaitRoom()
	}
}

const (
	pollCount = 20_000
	// roomWait is how long fetching waits for partitions without room before it
	// goes on without them.
	roomWait = 50 * time.Millisecond
)

func (g *group) accept(topic string, p *kgo.FetchPartition) {
	g.feedMu.Lock()
	defer g.feedMu.Unlock()
	a := g.s.engine.assignment(topic, p.Partition)
	if a == nil {
		return // it was taken away
	}
	a, records := g.compare(a, p.Records)
	g.see(a, p)
	a.epoch.Store(records[len(records)-1].LeaderEpoch)
	if len(a.overflow) == 0 {
		records = records[g.s.engine.take(a, records):]
	}
	a.overflow = append(a.overflow, records...)
	a.waiting += sizesOf(records)
}

// feedLoop takes in records that had to wait for room, as soon as there is some.
func (g *group) feedLoop() {
	for {
		select {
		case <-g.s.engine.room:
		case <-g.ctx.Done():
			return
		}
		g.feed()
		signal(g.fed)
	}
}

// feed takes in as many records as there is room for, and goes on fetching partitions of which
// none are left over. Flags of the client change with feedMu held only: a pause and its end
// must not overtake one another, nor the end of an assignment.
func (g *group) feed() {
	var resume []*assignment
	g.feedMu.Lock()
	defer g.feedMu.Unlock()
	for _, a := range g.s.engine.assignments() {
		for len(a.overflow) > 0 {
			some := a.overflow[:min(len(a.overflow), feedCount)]
			n := g.s.engine.take(a, some)
			a.waiting -= sizesOf(some[:n])
			clear(some[:n])
			if a.overflow = a.overflow[n:]; n < len(some) {
				break
			}
		}
		if a.paused && len(a.overflow) == 0 {
			a.paused, a.overflow = false, nil
			resume = append(resume, a)
		}
	}
	if len(resume) > 0 {
		g.client.ResumeFetchPartitions(g.partitions(resume))
	}
}

// feedCount is how many records are prepared at a time for a partition that may
// have room for one.
const feedCount = 64

// unpause ends the pause of partitions that are not ours any more: the client would keep them
// paused when they come back.
func (g *group) unpause(client *kgo.Client, parts map[string][]int32) {
	g.feedMu.Lock()
	defer g.feedMu.Unlock()
	client.ResumeFetchPartitions(parts)
}

// awaitRoom waits a moment while much is left over, and then goes on without the partitions
// that have no room: one that is stuck holds up no other. A record that is left over is an
// advantage: it is at hand when there is room.
func (g *group) awaitRoom() {
	timer := time.NewTimer(roomWait)
	defer timer.Stop()
	for g.full(false) {
		select {
		case <-g.fed:
		case <-g.s.ctx.Done():
			return
		case <-timer.C:
			g.full(true)
			signal(g.s.engine.room) // it may have come meanwhile
			return
		}
	}
}

// full reports whether too much is left over for more to be fetched. With pause, the
// partitions of which most is left over are no longer fetched.
func (g *group) full(pause bool) bool {
	g.feedMu.Lock()
	defer g.feedMu.Unlock()
	total, n := 0, 0
	as := g.s.engine.assignments()
	for _, a := range as {
		if len(a.overflow) > 0 && !a.paused {
			total += a.waiting
			n++
		}
	}
	much := total > int(g.s.cfg.Consume.FetchBytes)/2
	if !much || !pause {
		return much
	}
	as = slices.DeleteFunc(as, func(a *assignment) bool {
		return len(a.overflow) == 0 || a.paused || a.waiting < total/n
	})
	for _, a := range as {
		a.paused = true
	}
	g.client.PauseFetchPartitions(g.partitions(as))
	return true
}

// failed takes note of an error of a fetch. The client repeats what can be
// repeated.
func (g *group) failed(topic string, partition int32, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	topic = g.s.plain(topic)
	g.s.health.fetchFailed(topic, partition, about(g.s.wire(topic), err))
	if isUnknownTopic(err) {
		g.s.wg.Go(func() { g.recreated(topic) })
	}
}

// recreated drops a topic that was deleted, and looks for it again: one that was
// created again is a different topic, and is read from its start.
func (g *group) recreated(topic string) {
	g.mu.Lock()
	mine := g.topics[topic] && !g.left
	delete(g.topics, topic)
	g.mu.Unlock()
	if !mine {
		return
	}
	g.s.cfg.Logger.Error("topic was deleted, or made again", "topic", topic)
	as := g.ofTopics(topic)
	for _, a := range as {
		g.s.ownership.drop(a)
	}
	g.s.ownership.forget(topic)
	g.client.PurgeTopicsFromConsuming(g.s.wire(topic)) // without mu: it may call us back
	g.unpause(g.client, g.partitions(as))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.miss(topic)
}

// miss takes note of a topic that is wanted and not there. The caller holds mu.
func (g *group) miss(topic string) {
	if g.missing[topic] = true; len(g.missing) == 1 {
		g.s.background(g.findLoop)
	}
}

// fetched begins the assignments of partitions whose committed offsets were
// fetched. Records of them come after it.
func (g *group) fetched(ctx context.Context, client *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	g.rebalances.Add(1)
	clear(g.from)
	member, _ := client.GroupMetadata()
	for _, rg := range resp.Groups {
		for _, rt := range rg.Topics {
			name := g.nameOf(rt.Topic, rt.TopicID)
			t, there, err := g.s.topics.find(ctx, name)
			if err != nil {
				return err
			}
			if !there { // what comes of it meanwhile is dropped, and fetched again when it is found
				g.s.background(func() { g.recreated(g.s.plain(name)) })
				continue
			}
			for _, rp := range rt.Partitions {
				if rp.ErrorCode == 0 {
					g.assign(g.s.plain(name), rp.Partition, holder{t.source(), t.id, member}, rp.Offset, rp.Metadata)
				}
			}
		}
	}
	return nil
}

func (g *group) nameOf(name string, id [16]byte) string {
	if name != "" {
		return name
	}
	if known, ok := g.names.Load(id); ok {
		return known.(string)
	}
	return ""
}

// revoked gives partitions up: nothing more is begun, running handlers get a moment to finish,
// and finished work is committed.
func (g *group) revoked(_ context.Context, client *kgo.Client, parts map[string][]int32) {
	if len(parts) == 0 {
		return
	}
	as := g.of(parts)
	for _, a := range as {
		g.s.ownership.drain(a)
	}
	timer := time.NewTimer(g.s.cfg.Consume.Drain)
	defer timer.Stop()
wait:
	for _, a := range as {
		select {
		case <-a.quiet:
		case <-timer.C:
			break wait
		case <-g.ctx.Done():
			break wait
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(finalCommit, g.s.cfg.Consume.Rebalance/4))
	defer cancel()
	if err := g.giveUp(ctx, as); err != nil {
		g.s.cfg.Logger.Warn(
			"what was finished of partitions that are given up could not be committed: it will be repeated",
			"error", err)
	}
	g.unpause(client, parts)
	g.revocations.Add(1)
}

// giveUp commits assignments for the last time, and drops them. Progress that could not be
// committed is remembered.
func (g *group) giveUp(ctx context.Context, as []*assignment) error {
	err := g.s.commits.final(ctx, as)
	for _, a := range as {
		if err != nil {
			g.s.ownership.remember(a)
		}
		g.s.ownership.drop(a)
	}
	return err
}

// finalCommit bounds the last commit of an assignment.
const finalCommit = 5 * time.Second

// lost ends assignments that may already belong to another process.
func (g *group) lost(_ context.Context, client *kgo.Client, parts map[string][]int32) {
	for _, a := range g.of(parts) {
		g.s.ownership.remember(a)
		g.s.ownership.drop(a)
	}
	g.unpause(client, parts)
	g.losses.Add(1)
}

func (g *group) of(parts map[string][]int32) []*assignment {
	var as []*assignment
	for topic, ps := range parts {
		for _, p := range ps {
			if a := g.s.engine.assignment(g.s.plain(topic), p); a != nil {
				as = append(as, a)
			}
		}
	}
	return as
}

func (g *group) ofTopics(topics ...string) []*assignment {
	return slices.DeleteFunc(g.s.engine.assignments(), func(a *assignment) bool {
		return !slices.Contains(topics, a.topic.Name)
	})
}

// partitions are those of assignments, by topic as the client names them.
func (g *group) partitions(as []*assignment) map[string][]int32 {
	parts := map[string][]int32{}
	for _, a := range as {
		name := g.s.wire(a.topic.Name)
		parts[name] = append(parts[name], a.partition)
	}
	return parts
}

// tail is the lowest offset of a partition that was not taken in yet.
func (e *engine) tail(a *assignment) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.gate.Tail()
}

// assignment returns the live assignment of a partition, nil if there is none.
func (e *engine) assignment(topic string, partition int32) *assignment {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at(topic, partition)
}

func (e *engine) assignments() []*assignment {
	e.mu.Lock()
	defer e.mu.Unlock()
	var as []*assignment
	for _, a := range e.byID {
		if a.state != gone {
			as = append(as, a)
		}
	}
	return as
}
