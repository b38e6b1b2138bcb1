package kafka

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// membership is what was true of this process in its group when it got partitions. The
// client sends no commit while it joins: not to mix up who has which partition before a
// rebalance and after it. But a join takes as
// long as a session where the brokers wait for a member that died, and what is
// finished in that time has to be on record. The brokers take commits until all
// have joined.
type membership struct {
	mu     sync.Mutex
	member string
	topics map[string][16]byte // ids, by names at the brokers
}

// note takes up the ids of topics that a member has partitions of.
func (m *membership) note(member string, topics map[string][16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.topics == nil || m.member != member {
		m.topics = map[string][16]byte{}
	}
	maps.Copy(m.topics, topics)
	m.member = member
}

// of returns the ids of the topics of a member; nothing if this process is another
// one.
func (m *membership) of(member string) map[string][16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if member == "" || m.member != member {
		return nil
	}
	return maps.Clone(m.topics)
}

// direct sends a commit without the client's own logic, also while the client joins. It
// returns nil if that is impossible or failed: then the commit goes through the client,
// which waits.
//
// A partition may be committed under the member's present generation because it is
// ours until we give it up: who is still the same member has missed no rebalance,
// or the brokers would have made it another, and the balancer moves nothing that
// its owner still has. It matters that the generation is looked up before the fence:
// what is taken away between the two has a later one, and brokers refuse ours.
func (c *committer) direct(ctx context.Context, client *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset,
	entries map[place]commitEntry) *kmsg.OffsetCommitResponse {
	member, generation := client.GroupMetadata()
	ids := c.membership.of(member)
	if c.s.engine.fenced(entries) {
		return nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.s.cfg.Group, member, generation
	if c.s.cfg.Instance != "" {
		req.InstanceID = &c.s.cfg.Instance
	}
	for name, parts := range offsets {
		id, known := ids[name]
		if !known {
			return nil
		}
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = name, id
		for partition, o := range parts {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = partition, o.Offset, o.Epoch
			rp.Metadata = &entries[place{name, partition}].state.text
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

// refused tells whether a commit failed for anything else than its metadata.
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
