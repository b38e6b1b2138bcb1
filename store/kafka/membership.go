package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

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
