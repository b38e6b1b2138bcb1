package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawl-dev/pawl/store"
)

// listOffsets asks the brokers for an offset of every partition.
type listOffsets func(context.Context, ...string) (kadm.ListedOffsets, error)

// leaderWait bounds the wait for a partition that has no leader just now.
const leaderWait = 5 * time.Second

// offsetsOf asks for an offset of every partition of a topic: none of a topic that is not
// there. A partition without an answer fails the call: without it the others would be taken for
// the whole topic, and its messages for finished or missing. A partition that has no leader
// just now, or is new to its broker, is waited for.
func (s *core) offsetsOf(ctx context.Context, op, wire string, list listOffsets) (at map[int32]int64, err error) {
	err = again(ctx, leaderWait, kerr.IsRetriable, func() error {
		listed, err := list(ctx, wire)
		if err == nil {
			at, err = offsetsIn(wire, listed[wire])
		}
		return err
	})
	return at, s.explain(op, err)
}

// bounds are where the partitions of a topic begin and end.
func (s *core) bounds(ctx context.Context, op, wire string) (starts, ends map[int32]int64, err error) {
	if ends, err = s.offsetsOf(ctx, op, wire, s.admin.ListCommittedOffsets); err == nil {
		starts, err = s.offsetsOf(ctx, op, wire, s.admin.ListStartOffsets)
	}
	return starts, ends, err
}

// again repeats a call while its error is one that passes, for as long as wait.
func again(ctx context.Context, wait time.Duration, passes func(error) bool, call func() error) error {
	for end := time.Now().Add(wait); ; {
		err := call()
		if !passes(err) || time.Now().After(end) || store.Sleep(ctx, metadataMin) != nil {
			return err
		}
	}
}

// offsetsIn returns the answers of partitions, if all of them have answered.
func offsetsIn(wire string, listed map[int32]kadm.ListedOffset) (map[int32]int64, error) {
	at := map[int32]int64{}
	for p, o := range listed {
		switch {
		case p < 0 && errors.Is(o.Err, kerr.UnknownTopicOrPartition): // the topic itself
		case o.Err != nil:
			return nil, partitionError(wire, p, o.Err)
		default:
			at[p] = o.Offset
		}
	}
	return at, nil
}

// committedAt returns the offset that the group has committed in a partition, and the text
// beside it; -1 if there is none. An offset that cannot be read is an error, not -1.
func (s *core) committedAt(op string, committed kadm.OffsetResponses, wire string, partition int32) (int64,
	string, error) {
	c, ok := committed.Lookup(wire, partition)
	switch {
	case !ok || errors.Is(c.Err, kerr.UnknownTopicOrPartition):
		return -1, "", nil
	case c.Err != nil:
		return -1, "", s.explain(op, partitionError(wire, partition, c.Err))
	}
	return c.At, c.Metadata, nil
}

func partitionError(wire string, partition int32, err error) error {
	return about(wire, fmt.Errorf("partition %d of %s: %w", partition, wire, err))
}
