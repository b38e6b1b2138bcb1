package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// owned reports whether a member may commit assignments by itself: it is the one that got
// them, and still has them, and the brokers told the ids of their topics.
func (e *ownership) owned(entries map[place]commitEntry, member string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range entries {
		if a := entry.of; a.fenced || a.member != member || a.topicID == (kadm.TopicID{}) {
			return false
		}
	}
	return member != ""
}

// direct sends a commit without the client's own logic, also while the client joins. It
// returns nil if that is impossible or failed: then the commit goes through the client,
// which waits.
//
// The client sends no commit while it joins: not to mix up who has which partition before
// a rebalance and after it. But a join takes as long as a session where the brokers wait
// for a member that died, and what is finished in that time has to be on record. The
// brokers take commits until all have joined.
//
// A partition may be committed under the member's present generation because it is
// ours until we give it up: who is still the same member has missed no rebalance,
// or the brokers would have made it another, and the balancer moves nothing that
// its owner still has. It matters that the generation is looked up before the fence:
// what is taken away between the two has a later one, and brokers refuse ours.
func (c *committer) direct(ctx context.Context, client *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset,
	entries map[place]commitEntry) *kmsg.OffsetCommitResponse {
	member, generation := client.GroupMetadata()
	if !c.s.ownership.owned(entries, member) {
		return nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.s.cfg.Group, member, generation
	if c.s.cfg.Instance != "" {
		req.InstanceID = &c.s.cfg.Instance
	}
	for name, parts := range offsets {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = name
		for partition, o := range parts {
			entry := entries[place{name, partition}]
			rt.TopicID = entry.of.topicID
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = partition, o.Offset, o.Epoch
			rp.Metadata = &entry.state.text
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil || refused(resp) {
		return nil
	}
	return resp
}

// refused reports whether a commit failed for anything else than its metadata.
func refused(resp *kmsg.OffsetCommitResponse) bool {
	for i := range resp.Topics {
		for _, rp := range resp.Topics[i].Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil && !errors.Is(err, kerr.OffsetMetadataTooLarge) {
				return true
			}
		}
	}
	return false
}

// leaveWait bounds the end of a membership: the last commit has half of it. A process that
// is asked to end must do so, whatever the coordinator of its group does.
const leaveWait = 4 * time.Second

func (g *group) leave() {
	g.mu.Lock()
	g.left = true
	client, end := g.client, g.end
	g.mu.Unlock()
	if client == nil {
		return
	}
	g.leaving()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	// A static member does not leave when its client closes: partitions are given up here.
	last, done := context.WithTimeout(ctx, leaveWait/2)
	if err := g.giveUp(last, g.s.engine.assignments()); err != nil {
		g.s.cfg.Logger.Warn("what was finished last could not be committed: it will be repeated", "error", err)
	}
	done()
	closed := make(chan struct{})
	if g.s.cfg.Instance == "" {
		// The client would wait for the end of a join before it leaves, and a join waits
		// for every member that died, as long as the longest session. So the client is
		// stopped first, so that it does not join again, and then its departure is
		// announced on its behalf.
		member, _ := client.GroupMetadata()
		end()
		g.depart(ctx, member)
	}
	go func() {
		defer close(closed)
		client.CloseAllowingRebalance()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		g.s.cfg.Logger.Warn(
			"the coordinator of the group does not answer: this process is a member until its session ends", "group",
			g.s.cfg.Group)
	}
	end() // closing continues in the background
}

// depart announces that a member leaves, in the protocol that it joined with. If that
// does not get through, its session times out.
func (g *group) depart(ctx context.Context, member string) {
	if member == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait/4)
	defer cancel()
	if g.s.cfg.Protocol == ProtocolConsumer {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = g.s.cfg.Group, member, -1
		if resp, err := req.RequestWith(ctx, g.s.producers.main); err == nil && resp.ErrorCode == 0 {
			return
		}
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = g.s.cfg.Group, member
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.Reason = member, new("the process ends")
	req.Members = append(req.Members, m)
	if _, err := req.RequestWith(ctx, g.s.producers.main); err != nil {
		g.s.cfg.Logger.Debug("could not leave the group", "error", err)
	}
}

// Leave gives up the partitions of topics until this process claims from them again: a
// process that no longer claims must not keep partitions that others could work on.
func (s *Store) Leave(ctx context.Context, topics ...string) error {
	g := &s.group
	var mine []string
	g.mu.Lock()
	client := g.client
	for _, topic := range topics {
		delete(g.missing, topic)
		if g.topics[topic] && !g.left && client != nil {
			delete(g.topics, topic)
			mine = append(mine, topic)
		}
	}
	g.mu.Unlock()
	if len(mine) == 0 {
		return nil
	}
	as := g.ofTopics(mine...)
	for _, a := range as {
		s.ownership.drain(a)
	}
	ctx, cancel := context.WithTimeout(ctx, finalCommit)
	defer cancel()
	err := g.giveUp(ctx, as)
	for _, topic := range mine {
		client.PurgeTopicsFromConsuming(s.wire(topic))
	}
	g.unpause(client, g.partitions(as))
	return err
}
