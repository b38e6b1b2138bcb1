package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TopicSpec is the desired configuration of a topic. A zero field is ignored for an
// existing topic, and means the broker's default for a new one.
type TopicSpec struct {
	Partitions  int32
	Replicas    int16
	MinISR      int
	Retention   time.Duration // negative: for ever
	Compression string        // of the log: producer, lz4, zstd …
	MaxBytes    int           // of a batch, as max.message.bytes
}

// Production and Development are the profiles of topics.
var (
	Production = TopicSpec{Partitions: 12, Replicas: 3, MinISR: 2, Retention: 7 * 24 * time.Hour, Compression: "lz4",
		MaxBytes: 1 << 20}
	Development = TopicSpec{Partitions: 4, Replicas: 1, MinISR: 1, Retention: 7 * 24 * time.Hour, Compression: "lz4",
		MaxBytes: 1 << 20}
)

// spec is the configuration of a topic of messages.
func (c *Creation) spec() TopicSpec {
	var spec TopicSpec
	switch c.Profile {
	case "production":
		spec = Production
	case "development":
		spec = Development
	}
	if c.Partitions > 0 {
		spec.Partitions = c.Partitions
	}
	if c.Replicas > 0 {
		spec.Replicas = c.Replicas
	}
	spec.MinISR = min(spec.MinISR, max(1, int(spec.Replicas)))
	return spec
}

// Dead is the configuration of the topic for a topic's dead letters: as many
// partitions, kept for 30 days, and with room for the additional data of a letter.
func (t TopicSpec) Dead() TopicSpec {
	t.Retention, t.MaxBytes = deadRetention, maxDeadBytes
	return t
}

// Ensured is the result of Ensure for a topic.
type Ensured struct {
	Topic      string   `json:"topic"`
	Created    bool     `json:"created"`
	Partitions int      `json:"partitions"`
	Replicas   int      `json:"replicas"`
	Changed    []string `json:"changed"` // settings, as name=value
}

// Ensure creates a topic, or corrects settings that differ from the spec. The number of
// partitions is never changed: a key would move to another partition, while its earlier
// messages are still unfinished in the old one. With dry it changes nothing, and returns what
// it would change.
func (s *registry) Ensure(ctx context.Context, name string, spec TopicSpec, dry bool) (Ensured, error) {
	op := "ensure topic " + name
	if err := pawl.ValidTopic(name); err != nil {
		return Ensured{}, err
	}
	if err := s.usable(ctx, op); err != nil {
		return Ensured{}, err
	}
	for {
		d, there, err := s.detail(ctx, op, s.wire(name))
		if err != nil {
			return Ensured{}, err
		}
		if there {
			return s.checkTopic(ctx, op, name, d, spec, dry)
		}
		e, err := s.makeTopic(ctx, op, name, spec, dry)
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			return e, err
		}
		// It was made a moment ago, and the broker that was asked did not know yet.
	}
}

func (s *registry) detail(ctx context.Context, op, wire string) (d kadm.TopicDetail, there bool, err error) {
	details, err := s.describe(ctx, wire)
	d = details[wire]
	return d, d.Err == nil && len(d.Partitions) > 0, s.explain(op, err)
}

func (s *registry) checkTopic(ctx context.Context, op, name string, d kadm.TopicDetail, spec TopicSpec,
	dry bool) (Ensured, error) {
	e := Ensured{Topic: name, Partitions: len(d.Partitions), Replicas: d.Partitions.NumReplicas()}
	if spec.Partitions > 0 && len(d.Partitions) != int(spec.Partitions) {
		return e, &store.Error{
			Op: op, Code: store.ErrConflict, Err: fmt.Errorf("it has %d partitions, not %d", len(d.Partitions),
				spec.Partitions),
			Hint: "the number is not changed: keys would move to other partitions and lose their order. Make a new topic and move over when the old one is empty",
		}
	}
	if spec.Replicas > 0 && e.Replicas != int(spec.Replicas) {
		return e, &store.Error{
			Op: op, Code: store.ErrConflict, Err: fmt.Errorf("it has %d replicas, not %d", e.Replicas, spec.Replicas),
			Hint: "reassign its partitions with the tools of the cluster",
		}
	}
	return s.setTopic(ctx, op, e, spec, dry)
}

func (s *registry) makeTopic(ctx context.Context, op, name string, spec TopicSpec, dry bool) (Ensured, error) {
	e := Ensured{Topic: name, Created: true, Partitions: int(spec.Partitions), Replicas: int(spec.Replicas)}
	if dry {
		return e, nil
	}
	made, err := s.topics.create(ctx, op, s.wire(name), spec, nil)
	if errors.Is(err, kerr.InvalidReplicationFactor) {
		if brokers, listed := s.admin.ListBrokers(ctx); listed == nil && len(brokers) < int(spec.Replicas) {
			return e, s.side.tooFewBrokers(op, len(brokers), int(spec.Replicas))
		}
	}
	if err == nil {
		err = made.Err // it was there
	}
	e.Partitions, e.Replicas = int(made.NumPartitions), int(made.ReplicationFactor)
	return e, err
}

// setTopic corrects settings that differ from the spec.
func (s *registry) setTopic(ctx context.Context, op string, e Ensured, spec TopicSpec, dry bool) (Ensured, error) {
	wire := s.wire(e.Topic)
	have, err := s.settingsAt(ctx, wire)
	if err != nil {
		return e, s.explain(op, err)
	}
	var changes []kadm.AlterConfig
	for name, value := range spec.configs() {
		if have[name] != value {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
			e.Changed = append(e.Changed, name+"="+value)
		}
	}
	slices.Sort(e.Changed)
	if dry || len(changes) == 0 {
		return e, nil
	}
	resp, err := s.admin.AlterTopicConfigs(ctx, changes, wire)
	if err == nil && len(resp) == 0 {
		err = errors.New("the brokers gave no answer")
	}
	for _, r := range resp {
		err = errors.Join(err, r.Err)
	}
	return e, s.explain(op, err)
}

func (s *registry) settingsAt(ctx context.Context, wire string) (map[string]string, error) {
	described, err := s.admin.DescribeTopicConfigs(ctx, wire)
	all := map[string]string{}
	for _, rc := range described {
		err = errors.Join(err, rc.Err)
		for _, c := range rc.Configs {
			all[c.Key] = c.MaybeValue()
		}
	}
	return all, err
}

// configs are the settings of a topic that spec states, by their names at the
// brokers.
func (t *TopicSpec) configs() map[string]string {
	c := map[string]string{}
	if t.MinISR > 0 {
		c["min.insync.replicas"] = strconv.Itoa(t.MinISR)
	}
	switch {
	case t.Retention < 0:
		c["retention.ms"] = "-1"
	case t.Retention > 0:
		c["retention.ms"] = strconv.FormatInt(t.Retention.Milliseconds(), 10)
	}
	if t.Compression != "" {
		c["compression.type"] = t.Compression
	}
	if t.MaxBytes > 0 {
		c["max.message.bytes"] = strconv.Itoa(t.MaxBytes)
	}
	return c
}
