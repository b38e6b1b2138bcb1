package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/kafka"
)

// Kafka is what only a Kafka store can tell and do.
type Kafka struct {
	s     *kafka.Store
	codec *codec.Store // over it; nil: there is none
}

// KafkaOf finds the Kafka store in s.
func KafkaOf(s store.Store, what string) (*Kafka, error) {
	k, ok := store.As[*kafka.Store](s)
	if !ok {
		return nil, &store.Error{
			Op: what, Code: store.ErrUnsupported, Err: errors.New("it is about topics of a Kafka cluster, and this is another store"),
			Hint: "use --store kafka://HOST:PORT",
		}
	}
	c, _ := store.As[*codec.Store](s)
	return &Kafka{k, c}, nil
}

// KafkaHealth is how a cluster, its topics and the group are, as JSON.
type KafkaHealth struct {
	Cluster    string             `json:"cluster"`
	Controller int32              `json:"controller"`
	Brokers    []string           `json:"brokers"`
	Group      KafkaGroup         `json:"group"`
	Topics     []KafkaTopic       `json:"topics"`
	Partitions []KafkaPartition   `json:"partitions"`
	Problems   []KafkaHealthFault `json:"problems"`
}

// KafkaGroup is the consumer group.
type KafkaGroup struct {
	Name    string        `json:"name"`
	State   string        `json:"state"`
	Members []KafkaMember `json:"members"`
}

// KafkaMember is a process of the group.
type KafkaMember struct {
	ID         string `json:"id"`
	Client     string `json:"client"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"`
}

// KafkaTopic is a topic of the cluster.
type KafkaTopic struct {
	Topic           string  `json:"topic"`
	Partitions      int     `json:"partitions"`
	Replicas        int     `json:"replicas"`
	Leaderless      []int32 `json:"leaderless,omitempty"`
	UnderReplicated []int32 `json:"under_replicated,omitempty"`
	DeadTopic       bool    `json:"dead_topic"`
	Dead            int64   `json:"dead"`
}

// KafkaPartition is how far the group is in a partition.
type KafkaPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Committed int64  `json:"committed"` // -1: nothing yet
	Lag       int64  `json:"lag"`       // messages that are not finished
	Member    string `json:"member,omitempty"`
}

// KafkaHealthFault is something that is wrong.
type KafkaHealthFault struct {
	About string `json:"about"`
	What  string `json:"what"`
}

// Health asks the cluster how it is.
func (k *Kafka) Health(ctx context.Context, topics ...string) (*KafkaHealth, error) {
	h, err := k.s.Health(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := &KafkaHealth{
		Cluster: h.Cluster, Controller: h.Controller, Brokers: h.Brokers, Group: KafkaGroup{Name: h.Group.Name, State: h.Group.State},
		Topics: []KafkaTopic{}, Partitions: []KafkaPartition{}, Problems: []KafkaHealthFault{},
	}
	out.Group.Members = []KafkaMember{}
	for _, m := range h.Group.Members {
		out.Group.Members = append(out.Group.Members, KafkaMember(m))
	}
	for _, t := range h.Topics {
		out.Topics = append(out.Topics, KafkaTopic(t))
	}
	for _, l := range h.Lags {
		out.Partitions = append(out.Partitions, KafkaPartition{l.Topic, l.Partition, l.Start, l.End, l.Committed, l.Left, l.Member})
	}
	for _, f := range h.Faults {
		out.Problems = append(out.Problems, KafkaHealthFault{f.About, f.What})
	}
	return out, nil
}

// KafkaSpec is how a topic is to be; zero fields are not looked at.
type KafkaSpec = kafka.TopicSpec

// KafkaEnsured is what became of a topic, as JSON.
type KafkaEnsured = kafka.Ensured

// KafkaProfiles are how topics usually are.
var KafkaProfiles = map[string]KafkaSpec{"production": kafka.Production, "development": kafka.Development}

// DeadSuffix is what the names of topics of dead letters end with.
func (k *Kafka) DeadSuffix() string { return k.s.DeadSuffix() }

// Workable refuses a topic that the store keeps something of its own in: as one of
// messages it would lose what it is kept for.
func (k *Kafka) Workable(name string) error {
	of, own := k.s.Owner(name)
	switch {
	case !own:
		return nil
	case of == "":
		return &store.Error{
			Op: "ensure topic " + name, Code: store.ErrInvalid, Err: errors.New("it holds the state of this store, which makes it and keeps it as it has to be"),
			Hint: "leave it out",
		}
	}
	return &store.Error{
		Op: "ensure topic " + name, Code: store.ErrInvalid, Err: fmt.Errorf("it holds the dead letters of %s, and is made and kept together with that", of),
		Hint: "run `pawl kafka topics ensure " + of + "`",
	}
}

// Ensure makes a topic, or sets what is otherwise than it should be.
func (k *Kafka) Ensure(ctx context.Context, name string, spec KafkaSpec, dry bool) (KafkaEnsured, error) {
	return k.s.Ensure(ctx, name, spec, dry)
}

// KafkaMessage is a record of a partition, as JSON.
type KafkaMessage struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	Message
}

// Peek reads records of a partition without moving the group; offset -1 is the
// first that the group has not finished.
func (k *Kafka) Peek(ctx context.Context, topic string, partition int32, offset int64, n int) ([]KafkaMessage, error) {
	seen, err := k.s.Peek(ctx, topic, partition, offset, n)
	out := make([]KafkaMessage, 0, len(seen))
	for i := range seen {
		if showErr := k.show(ctx, &seen[i]); showErr != nil {
			return out, showErr
		}
		out = append(out, kafkaMessage(&seen[i]))
	}
	return out, err
}

// show turns what was read in Kafka itself into what it was when it was appended.
func (k *Kafka) show(ctx context.Context, s *kafka.Seen) (err error) {
	if k.codec != nil {
		s.Record, err = k.codec.Show(ctx, s.Record)
	}
	return err
}

func kafkaMessage(s *kafka.Seen) KafkaMessage {
	return KafkaMessage{s.Partition, s.Offset, s.Timestamp.UTC(), FormMessage(&s.Record)}
}

// KafkaSkipped is what became of a message that was to be stepped over, as JSON.
type KafkaSkipped struct {
	KafkaMessage
	Pending bool `json:"pending"` // the process that has the partition was asked, and has not done it yet
}

// Skip moves a message that is not finished to the dead letters, and writes that
// down.
func (k *Kafka) Skip(ctx context.Context, topic string, partition int32, offset int64, who, reason string, patience time.Duration) (KafkaSkipped, error) {
	began := time.Now()
	done, err := k.s.Skip(ctx, topic, partition, offset, who, reason, patience)
	if err != nil {
		return KafkaSkipped{}, err
	}
	entry := AuditEntry{
		Who: who, Action: "skip", Count: 1, Reason: reason, Seconds: time.Since(began).Seconds(),
		Target: fmt.Sprintf("%s/%d/%d (id %s)", topic, partition, done.Offset, done.ID),
	}
	if !done.Pending {
		entry.Result.Done = 1
	}
	err = errors.Join(Audit(ctx, k.s, entry), k.show(ctx, &done.Seen))
	return KafkaSkipped{kafkaMessage(&done.Seen), done.Pending}, err
}
