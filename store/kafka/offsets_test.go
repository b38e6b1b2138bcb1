package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestPartitionWithoutAnAnswer: what is in a partition that does not answer is neither
// finished nor never there. One that answers a moment later is waited for.
func TestPartitionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []int16{kmsg.ListOffsets.Int16(), kmsg.OffsetFetch.Int16()} {
		cluster := fakeCluster(t, 1)
		s := open(t, brisk(cluster.ListenAddrs()))
		id := pawl.NewID()
		if rs, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "a", ID: id})); err != nil ||
			rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		commit(t, cluster.ListenAddrs(), "pawl", "a", 0, "")
		topics, err := adminOf(t, cluster.ListenAddrs()).ListTopics(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var times atomic.Int32 // that the partition does not answer
		cluster.ControlKey(kind, func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if !concerns(r, "a") || times.Add(-1) < 0 {
				return nil, nil, false
			}
			return without(r, topics["a"].ID, kerr.LeaderNotAvailable), nil, true
		})
		look := map[string]func(context.Context) error{
			"stats": func(ctx context.Context) error { _, err := s.Stats(ctx, "a"); return err },
			"get":   func(ctx context.Context) error { _, err := s.Get(ctx, id); return err },
			"list": func(ctx context.Context) error {
				n := 0
				for _, err := range s.List(ctx, store.Filter{Topic: "a"}) {
					if n++; err != nil {
						return err
					}
				}
				if n == 0 {
					return errors.New("nothing is listed")
				}
				return nil
			},
		}
		for name, do := range look {
			if kind == kmsg.ListOffsets.Int16() {
				times.Store(3)
				if err := do(t.Context()); err != nil {
					t.Errorf("%s, answered late: %v", name, err)
				}
			}
			times.Store(1 << 20)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := do(ctx); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s of %s without an answer: %v", name, kmsg.NameForKey(kind), err)
			}
			cancel()
			times.Store(0)
		}
	}
}

// concerns reports whether a request is about a topic.
func concerns(r kmsg.Request, topic string) bool {
	switch r := r.(type) {
	case *kmsg.ListOffsetsRequest:
		for _, t := range r.Topics {
			if t.Topic == topic {
				return true
			}
		}
		return false
	}
	return true
}

// without is an answer that says of the partitions that they cannot answer; id is that
// of topic "a".
func without(r kmsg.Request, id [16]byte, why *kerr.Error) kmsg.Response {
	switch r := r.(type) {
	case *kmsg.ListOffsetsRequest:
		resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range r.Topics {
			to := kmsg.NewListOffsetsResponseTopic()
			to.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, why.Code
				to.Partitions = append(to.Partitions, p)
			}
			resp.Topics = append(resp.Topics, to)
		}
		return resp
	case *kmsg.OffsetFetchRequest:
		resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
		to := kmsg.NewOffsetFetchResponseGroupTopic()
		to.Topic, to.TopicID, to.Partitions = "a", id, append(to.Partitions, p)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.Topics = r.Groups[0].Group, append(g.Topics, to)
		resp.Groups = append(resp.Groups, g)
		return resp
	}
	return nil
}
