package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
)

// sourceProducer is the source of letters of messages that never got into their
// topic.
const sourceProducer = "producer"

// KindDelivery is the kind of a dead letter of a message that could not be
// delivered to its topic.
const KindDelivery pawl.Kind = "Delivery"

// Divert writes messages that could not be delivered to the topics of their dead
// letters, from where they can be replayed: all of them, or it returns an error.
func (s *Store) Divert(ctx context.Context, msgs []pawl.Message, why error) error {
	if err := s.usable(ctx, "divert"); err != nil {
		return err
	}
	records := make([]*kgo.Record, 0, len(msgs))
	now := s.cfg.Now()
	for i := range msgs {
		m := &msgs[i]
		name, err := s.topics.ensureDead(ctx, s.wire(m.Topic))
		if err != nil {
			return err
		}
		id := m.ID
		if id == "" {
			id = pawl.NewID()
		}
		r := s.recordOf(m, id)
		r.Timestamp = now
		records = append(records, s.letterRecord(name, r, &letter{
			Envelope: envelope, ID: id, Topic: m.Topic, Partition: s.partitionOf(name, m.Key), Offset: -1,
			Timestamp: now,
			Kind:      string(KindDelivery), Reason: why.Error(), FirstAt: now, DeadAt: now, Source: sourceProducer,
			Client: s.cfg.ClientID,
		}))
	}
	return s.explain("divert", errors.Join(s.produce(ctx, records)...))
}
