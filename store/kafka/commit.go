package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// committer commits progress: the offset of the first message that is not finished and, in the
// metadata of the commit, which messages behind it are. Nothing else may commit: a commit that
// bypasses it would wipe the metadata.
type committer struct {
	s      *Store
	client atomic.Pointer[kgo.Client]

	turn    chan struct{} // holds one: one commit at a time
	last    atomic.Int64  // when the last commit began, in nanoseconds since 1970
	commits atomic.Uint64
	failed  atomic.Uint64
	bare    atomic.Uint64 // without metadata, because it was too large
}

func (c *committer) init(s *Store) { c.s, c.turn = s, make(chan struct{}, 1) }

// begin waits until no other commit is under way, no longer than ctx lasts. The
// function it returns lets the next one begin.
func (c *committer) begin(ctx context.Context) (end func(), err error) {
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type place struct {
	topic     string
	partition int32
}

type commitEntry struct {
	of    *assignment
	state *committedState
}

// loop commits when there is something new: at once if the last commit is an interval ago, so
// that messages begun after a pause are on record soon.
func (c *committer) loop() {
	interval := c.s.cfg.Consume.Commit
	for {
		select {
		case <-c.s.engine.dirty:
		case <-c.s.group.ctx.Done():
			return
		}
		wait := time.Until(time.Unix(0, c.last.Load()).Add(interval))
		if store.Sleep(c.s.group.ctx, min(wait, interval)) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(c.s.ctx, commitTimeout)
		err := c.commit(ctx, c.s.ownership.touched())
		cancel()
		if err != nil && c.s.ctx.Err() == nil {
			signal(c.s.engine.dirty)
		}
	}
}

const commitTimeout = 10 * time.Second

// touched returns the assignments about which there is something to commit.
func (e *ownership) touched() []*assignment {
	e.mu.Lock()
	defer e.mu.Unlock()
	var as []*assignment
	for _, a := range e.byID {
		if a.state == live && a.touched {
			as = append(as, a)
		}
	}
	return as
}

// final commits assignments for the last time, and drops them.
func (c *committer) final(ctx context.Context, as []*assignment) error {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return c.send(ctx, c.s.ownership.checkpoints(as, c.s.ownership.conclude), passing)
}

// retryCommit is the pause between tries of a commit.
const retryCommit = 50 * time.Millisecond

// passing reports whether a failed last commit, which no later one replaces, may succeed when
// it is repeated. In a rebalance all tries fail until it is over, and it waits for us.
func passing(err error) bool {
	return kerr.IsRetriable(err) && !errors.Is(err, kerr.RebalanceInProgress)
}

// joining reports whether a commit failed because this process and the brokers disagree about
// its generation. That is over when it has joined.
func joining(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) ||
		errors.Is(err, kerr.StaleMemberEpoch)
}

// checkpoints takes a checkpoint of each assignment that is not over.
func (e *ownership) checkpoints(as []*assignment,
	take func(*assignment) gate.Checkpoint) map[*assignment]gate.Checkpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	cps := map[*assignment]gate.Checkpoint{}
	for _, a := range as {
		if a.state != gone {
			cps[a] = take(a)
		}
	}
	return cps
}

func (c *committer) commit(ctx context.Context, as []*assignment) error {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	cps := c.s.ownership.checkpoints(as, c.s.ownership.checkpoint)
	c.last.Store(time.Now().UnixNano())
	err = c.send(ctx, cps, joining)
	c.s.ownership.recorded(cps, err)
	return err
}

// recorded notes, after a commit of checkpoints, since when something waits to be committed:
// failed checkpoints still do, and so does progress that had no room in the metadata.
func (e *ownership) recorded(cps map[*assignment]gate.Checkpoint, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a, cp := range cps {
		asked := a.asked
		a.asked = 0
		switch {
		case err != nil:
			a.owed, a.touched = earliest(asked, a.owed), true
			signal(e.dirty) // nothing else will: to the next ack it looks as if it were committed
		case a.bare && a.gate.Backlog() > 0:
			if a.bareAt != cp.Base { // it came forward
				a.bareAt, asked = cp.Base, e.now().UnixNano()
			}
			a.owed = earliest(asked, a.owed)
		}
	}
}

// earliest returns the earlier of two times, of which zero is none.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// owedSince is the time since which something waits to be committed; 0 if nothing does.
func (a *assignment) owedSince() int64 { return earliest(a.asked, a.owed) }

// mark puts on record that something of partitions is handed out, for the first time since they
// were assigned: a message that kills this process at once would leave no trace otherwise. If
// the brokers take no commits, work goes on all the same.
func (s *Store) mark(ctx context.Context, as map[*assignment]bool, lease time.Duration) {
	if err := s.commitNow(ctx, as, min(markTimeout, lease/2)); err != nil {
		s.cfg.Logger.Debug("work is begun before a commit says so", "error", err)
	}
	s.ownership.marked(as)
}

func (e *ownership) marked(as map[*assignment]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range as {
		a.marked = true
	}
}

const markTimeout = time.Second

// commitNow commits the messages that have to be on record before they are carried out,
// together with all other progress: a message that was carried out alone and is finished must
// not be on record as running when the next one kills this process.
func (s *Store) commitNow(ctx context.Context, as map[*assignment]bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list := slices.Collect(maps.Keys(as))
	all := slices.Clone(list)
	for _, a := range s.ownership.touched() {
		if !as[a] {
			all = append(all, a)
		}
	}
	err := s.commits.commit(ctx, all)
	if err != nil && len(all) > len(list) {
		err = s.commits.commit(ctx, list) // errors of other partitions do not matter
	}
	return err
}

// send sends checkpoints to the group's coordinator, again while an error is temporary. It is
// the caller's turn.
func (c *committer) send(ctx context.Context, cps map[*assignment]gate.Checkpoint, passes func(error) bool) error {
	entries := map[place]commitEntry{}
	for a, cp := range cps {
		a.bare = false
		next, acked := &committedState{cp.Base, cp.Text()}, a.acked.Load()
		if *next == *acked || acked.base < 0 && c.s.engine.tail(a) == 0 {
			continue
		}
		entries[place{c.s.wire(a.topic.Name), a.partition}] = commitEntry{a, next}
		a.tried.Store(next)
	}
	client := c.client.Load()
	if len(entries) == 0 || client == nil {
		return nil
	}
	tooLarge, outcome := c.request(ctx, client, entries)
	for passes(outcome) && store.Sleep(ctx, retryCommit) == nil {
		tooLarge, outcome = c.request(ctx, client, entries)
	}
	if len(tooLarge) > 0 {
		_, err := c.request(ctx, client, c.withoutText(tooLarge, entries))
		outcome = errors.Join(outcome, err)
	}
	c.commits.Add(1)
	if outcome != nil {
		c.failed.Add(1)
		c.s.health.note("group", "cannot commit: %v; what is finished since is repeated after a crash", outcome)
	}
	return outcome
}

// withoutText are entries whose text is too large for the brokers, with their offset alone.
func (c *committer) withoutText(tooLarge []place, entries map[place]commitEntry) map[place]commitEntry {
	c.s.health.note("group", "the brokers take too little metadata with a commit (offset.metadata.max.bytes): "+
		"after a crash more finished work is repeated")
	bare := map[place]commitEntry{}
	for _, at := range tooLarge {
		c.bare.Add(1)
		a, next := entries[at].of, &committedState{base: entries[at].state.base}
		a.bare = true
		a.tried.Store(next)
		bare[at] = commitEntry{a, next}
	}
	return bare
}

// errOver: brokers do not check that a partition belongs to the member that commits it.
var errOver = errors.New("a partition was taken away before its commit was sent")

// request sends one commit, without the client's own logic.
//
// The client sends no commit while it joins, in order not to confuse the owners of partitions
// before and after a rebalance. But a join takes as long as a session if the brokers wait for a
// member that died, and progress in that time has to be on record. The brokers take commits
// until all have joined.
//
// A partition may be committed under the member's present generation because it is ours until
// we give it up: a process that is still the same member has missed no rebalance, or the
// brokers would have made it another member, and the balancer moves no partition that its owner
// still has. The generation must be looked up before the fence: a partition that is taken away
// between the two has a later generation, and brokers refuse ours.
func (c *committer) request(ctx context.Context, client *kgo.Client,
	entries map[place]commitEntry) (tooLarge []place, err error) {
	member, generation := client.GroupMetadata()
	if !c.s.ownership.owned(entries, member) {
		return nil, errOver
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.s.cfg.Group, member, generation
	if c.s.cfg.Instance != "" {
		req.InstanceID = &c.s.cfg.Instance
	}
	topics := map[string]*kmsg.OffsetCommitRequestTopic{}
	for at, entry := range entries {
		t := topics[at.topic]
		if t == nil {
			t = new(kmsg.NewOffsetCommitRequestTopic())
			t.Topic, t.TopicID = at.topic, entry.of.topicID
			topics[at.topic] = t
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = at.partition, entry.state.base, &entry.state.text
		t.Partitions = append(t.Partitions, p)
	}
	for _, t := range topics {
		req.Topics = append(req.Topics, *t)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	return c.answered(resp, entries)
}

func (c *committer) answered(resp *kmsg.OffsetCommitResponse,
	entries map[place]commitEntry) (tooLarge []place, outcome error) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := c.s.group.nameOf(t.Topic, t.TopicID)
		for j := range t.Partitions {
			at := place{name, t.Partitions[j].Partition}
			err := kerr.ErrorForCode(t.Partitions[j].ErrorCode)
			switch {
			case errors.Is(err, kerr.OffsetMetadataTooLarge):
				tooLarge = append(tooLarge, at)
			case err != nil:
				outcome = err
			default:
				if entry, ok := entries[at]; ok {
					entry.of.acked.Store(entry.state)
				}
			}
		}
	}
	return tooLarge, outcome
}
