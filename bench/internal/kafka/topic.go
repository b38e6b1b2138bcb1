package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// prefix is that of all topics and groups of the benchmarks.
const prefix = "pawlbench-"

// Brokers are those of a run.
type Brokers struct {
	addresses []string
	client    *kgo.Client
	admin     *kadm.Client
}

// Connect connects to the brokers at addresses, HOST:PORT with commas between
// them, and removes what an interrupted run left there.
func Connect(ctx context.Context, addresses string) (*Brokers, error) {
	b, err := dial(addresses)
	if err != nil {
		return nil, err
	}
	if err := b.clean(ctx); err != nil {
		b.client.Close()
		return nil, err
	}
	return b, nil
}

func dial(addresses string) (*Brokers, error) {
	b := &Brokers{addresses: strings.Split(addresses, ",")}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addresses...))
	if err != nil {
		return nil, fmt.Errorf("connect to the brokers: %w", err)
	}
	b.client, b.admin = client, kadm.NewClient(client)
	return b, nil
}

// Close removes all topics and groups of the benchmarks.
func (b *Brokers) Close(ctx context.Context) error {
	defer b.client.Close()
	return b.clean(ctx)
}

func (b *Brokers) clean(ctx context.Context) error {
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

// ours are the names of the benchmarks' own topics or groups.
func ours(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// Version is the highest release whose requests the brokers know.
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
func TopicOf(n int) string { return fmt.Sprintf("%sread-%d", prefix, n) }

// create makes an empty topic in place of what there was.
func (b *Brokers) create(ctx context.Context, topic string) error {
	for {
		_, err := b.admin.CreateTopic(ctx, plan.KafkaPartitions, -1, nil, topic)
		if !errors.Is(err, kerr.TopicAlreadyExists) { // one that is being deleted is still there for a moment
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fill writes the topic of n records, not compressed. The records of a shorter
// topic are the first ones of a longer one.
func (b *Brokers) Fill(ctx context.Context, n int) error {
	topic := TopicOf(n)
	if err := b.create(ctx, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	w, err := newRawWriter(b, topic, plan.BurstLinger)
	if err != nil {
		return err
	}
	defer w.client.Close()
	if err := w.burst(ctx, newMaker(plan.KafkaKeys, plan.KafkaBytes), n); err != nil {
		return fmt.Errorf("fill topic %s: %w", topic, err)
	}
	return nil
}

// maker makes records: the same ones every time.
type maker struct {
	rng   *rand.PCG
	turns []uint32
	names [][]byte
	size  int
	pad   []byte // of noise, so that no layer can compress it
}

func newMaker(keys, size int) *maker {
	m := &maker{rng: rand.NewPCG(plan.Seed, 0), turns: make([]uint32, keys), size: size}
	for k := range keys {
		m.names = append(m.names, fmt.Appendf(nil, "key-%07d", k))
	}
	noise := rand.NewPCG(plan.Seed, 1)
	for len(m.pad) < 1<<20 {
		m.pad = binary.BigEndian.AppendUint64(m.pad, noise.Uint64())
	}
	return m
}

func (m *maker) next() (key, body []byte) {
	r := m.rng.Uint64()
	k := int(r % uint64(len(m.turns)))
	m.turns[k]++
	body = make([]byte, m.size)
	binary.BigEndian.PutUint32(body[keyAt:], uint32(k))
	binary.BigEndian.PutUint32(body[turnAt:], m.turns[k])
	from := int(r>>32) % (len(m.pad) - m.size)
	copy(body[padAt:], m.pad[from:])
	return m.names[k], body
}

// committed is how many records of a topic a group has committed.
func (b *Brokers) committed(ctx context.Context, group, topic string) (n int64, err error) {
	offsets, err := b.admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("read what %s has committed: %w", group, err)
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			n += o.At
		}
	})
	return n, nil
}

// size is how many records there are in a topic.
func (b *Brokers) size(ctx context.Context, topic string) (n int64, err error) {
	ends, err := b.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read the ends of %s: %w", topic, err)
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, ends.Error()
}
