// Package brokers has what the benchmarks ask of Kafka: topics, how much is in them, and how much a group has committed.
package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Prefix is that of all topics and groups of the benchmarks.
const Prefix = "pawlbench-"

// Written is the topic that producers write to.
const Written = Prefix + "write"

// Brokers are those of a run.
type Brokers struct {
	Addresses []string
	client    *kgo.Client
	admin     *kadm.Client
}

// Dial connects to the brokers at addresses, HOST:PORT with commas between them.
func Dial(addresses string) (*Brokers, error) {
	b := &Brokers{Addresses: strings.Split(addresses, ",")}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses...))
	if err != nil {
		return nil, fmt.Errorf("connect to the brokers: %w", err)
	}
	b.client, b.admin = client, kadm.NewClient(client)
	return b, nil
}

// Close closes the connections.
func (b *Brokers) Close() { b.client.Close() }

// Clean removes all topics and groups of the benchmarks, also those that an interrupted run left.
func (b *Brokers) Clean(ctx context.Context) error {
	topics, err := b.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	if names := ours(topics.Names()); len(names) > 0 {
		if _, err := b.admin.DeleteTopics(ctx, names...); err != nil {
			return fmt.Errorf("delete topics: %w", err)
		}
	}
	groups, err := b.admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	if names := ours(groups.Groups()); len(names) > 0 {
		if _, err := b.admin.DeleteGroups(ctx, names...); err != nil {
			return fmt.Errorf("delete groups: %w", err)
		}
	}
	return nil
}

// ours returns the names of the benchmarks' own topics or groups.
func ours(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, Prefix) })
}

// Version returns the highest release whose requests the brokers know.
func (b *Brokers) Version(ctx context.Context) string {
	versions, err := b.admin.ApiVersions(ctx)
	if err != nil {
		return "unknown"
	}
	for _, v := range versions {
		return v.VersionGuess()
	}
	return "unknown"
}

// TopicOf names the topic of so many records.
func TopicOf(n int) string { return fmt.Sprintf("%sread-%d", Prefix, n) }

// Create makes an empty topic in place of what there was.
func (b *Brokers) Create(ctx context.Context, topic string) error {
	if _, err := b.admin.DeleteTopics(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	for {
		_, err := b.admin.CreateTopic(ctx, plan.KafkaPartitions, -1, nil, topic)
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) { // one that is being deleted is still there for a moment
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Committed counts the records of a topic that a group has committed.
func (b *Brokers) Committed(ctx context.Context, group, topic string) (n int, err error) {
	offsets, err := b.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("read what %s has committed: %w", group, err)
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			n += int(o.At)
		}
	})
	return n, nil
}

// Size counts the records in a topic.
func (b *Brokers) Size(ctx context.Context, topic string) (n int, err error) {
	ends, err := b.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read the ends of %s: %w", topic, err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n, ends.Error()
}
