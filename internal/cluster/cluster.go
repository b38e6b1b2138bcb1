// Package cluster is what `pawl kafka` does: it looks at the cluster behind a Kafka
// store, at its topics and at the group, and acts on single messages of a partition.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// broker is what a store over Kafka can do beyond the contract.
type broker interface {
	store.Store
	Health(ctx context.Context, topics ...string) (*kafka.Health, error)
	// DeadName is the name of the topic of a topic's dead letters.
	DeadName(of string) string
	Owner(name string) (of string, own bool)
	// Ensure creates a topic, or corrects settings that differ from the spec.
	Ensure(ctx context.Context, name string, spec Spec, dry bool) (Ensured, error)
	// EnsureState gives the topic of the store's own state as many replicas as topics are to have, where it
	// has fewer.
	EnsureState(ctx context.Context, spec Spec, dry bool) (Ensured, error)
	Peek(ctx context.Context, topic string, partition int32, offset int64, n int) ([]kafka.Seen, error)
	SkipOffset(ctx context.Context, topic string, partition int32, offset int64, who, reason string,
		wait time.Duration) (kafka.Skipped, error)
}

// Cluster has the operations that only a Kafka store supports.
type Cluster struct {
	broker
	coder coder // over it; nil: there is none
}

// coder is a store that keeps bodies in a form other than the one they were sent in.
type coder interface {
	// Show decodes a record that was read from the underlying store, as the listings of
	// this one do.
	Show(ctx context.Context, r store.Record) (store.Record, error)
}

// Of finds the Kafka store in s.
func Of(s store.Store, what string) (*Cluster, error) {
	k, ok := store.As[broker](s)
	if !ok {
		return nil, &store.Error{
			Op: what, Code: store.ErrUnsupported,
			Err:  errors.New("this is about the topics of a Kafka cluster, and the store is another one"),
			Hint: "use --store kafka://HOST:PORT",
		}
	}
	c, _ := store.As[coder](s)
	return &Cluster{k, c}, nil
}

// Health is the state of a cluster, its topics and the group, as JSON.
type Health = kafka.Health

// Spec is the desired configuration of a topic; zero fields are ignored.
type Spec = kafka.TopicSpec

// Ensured is the result for a topic, as JSON.
type Ensured = kafka.Ensured

// Profiles are the usual configurations of topics.
var Profiles = map[string]Spec{"production": kafka.Production, "development": kafka.Development}

// Workable refuses a topic in which the store keeps its own data: as a topic of
// messages it would lose them.
func (k *Cluster) Workable(name string) error {
	of, own := k.broker.Owner(name)
	switch {
	case !own:
		return nil
	case of == "":
		return &store.Error{
			Op: "ensure topic " + name, Code: store.ErrInvalid,
			Err:  errors.New("it holds the state of this store, which creates and configures it by itself"),
			Hint: "leave it out",
		}
	}
	return &store.Error{
		Op: "ensure topic " + name, Code: store.ErrInvalid,
		Err:  fmt.Errorf("it holds the dead letters of %s, and is created and configured together with it", of),
		Hint: "run `pawl kafka topics ensure " + of + "`",
	}
}

// Message is a record of a partition, as JSON.
type Message struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	operate.Message
}

// Peek reads records of a partition without moving the group; offset -1 is the
// first that the group has not finished.
func (k *Cluster) Peek(ctx context.Context, topic string, partition int32, offset int64, n int) ([]Message, error) {
	seen, err := k.broker.Peek(ctx, topic, partition, offset, n)
	out := make([]Message, 0, len(seen))
	for i := range seen {
		if showErr := k.show(ctx, &seen[i]); showErr != nil {
			return out, showErr
		}
		out = append(out, kafkaMessage(&seen[i]))
	}
	return out, err
}

// show turns what was read in Kafka itself into what it was when it was appended.
func (k *Cluster) show(ctx context.Context, s *kafka.Seen) (err error) {
	if k.coder != nil {
		s.Record, err = k.coder.Show(ctx, s.Record)
	}
	return err
}

func kafkaMessage(s *kafka.Seen) Message {
	return Message{s.Partition, s.Offset, s.Timestamp.UTC(), operate.FormMessage(&s.Record)}
}

// Skipped is the result of a skip, as JSON.
type Skipped struct {
	Message
	Pending bool `json:"pending"` // the process that has the partition was asked, and has not done it yet
}

// Skip moves a message that is not finished to the dead letters, and records that in
// the audit.
func (k *Cluster) Skip(
	ctx context.Context, topic string, partition int32, offset int64, who, reason string, wait time.Duration,
) (Skipped, error) {
	began := time.Now()
	done, err := k.broker.SkipOffset(ctx, topic, partition, offset, who, reason, wait)
	if err != nil {
		return Skipped{}, err
	}
	entry := operate.AuditEntry{
		Who: who, Action: "skip", Count: 1, Reason: reason, Seconds: time.Since(began).Seconds(),
		Target: fmt.Sprintf("%s/%d/%d (id %s)", topic, partition, done.Offset, done.ID),
	}
	if !done.Pending {
		entry.Result.Done = 1
	}
	err = errors.Join(operate.Audit(ctx, k.broker, entry), k.show(ctx, &done.Seen))
	return Skipped{kafkaMessage(&done.Seen), done.Pending}, err
}
