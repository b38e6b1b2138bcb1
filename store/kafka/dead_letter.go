package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Headers of a dead letter, beside those of its message, which are untouched but for
// those that mean something here ([foreign]).
const (
	headerDead = "pawl-dead" // a [letter], as JSON
	// What Spring's dead-letter recoverer writes, so that tools made for it read
	// ours: numbers are big-endian.
	springTopic     = "kafka_dlt-original-topic"
	springPartition = "kafka_dlt-original-partition"
	springOffset    = "kafka_dlt-original-offset"
	springTimestamp = "kafka_dlt-original-timestamp"
	springClass     = "kafka_dlt-exception-fqcn"
	springMessage   = "kafka_dlt-exception-message"
)

// letter is what a dead letter says of its message, in the header pawl-dead.
type letter struct {
	Envelope  int             `json:"v"` // of this envelope: 1
	ID        string          `json:"id"`
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"` // -1: it was not read from a log
	Timestamp time.Time       `json:"timestamp"`
	Kind      string          `json:"kind"`
	Reason    string          `json:"reason"`
	Attempts  int             `json:"attempts"`
	Rescues   int             `json:"rescues,omitempty"`
	Lonely    int             `json:"lonely,omitempty"`
	FirstAt   time.Time       `json:"first_failed_at"`
	DeadAt    time.Time       `json:"dead_at"`
	Source    string          `json:"source"` // consumer or producer
	Client    string          `json:"client"`
	Group     string          `json:"group,omitempty"`
	Handler   string          `json:"handler,omitempty"` // version of the program
	History   []store.Attempt `json:"history,omitempty"`

	Fingerprint string       `json:"fingerprint,omitempty"` // of one that was imported
	Rank        int64        `json:"rank,omitempty"`
	Unique      *pawl.Unique `json:"unique,omitempty"`
	Amended     bool         `json:"amended,omitempty"`
}

const envelope = 1

// awaitDeaths waits a bounded time for dead letters to be written, and reports whether
// all are. The lane of one that is not stays closed.
func (s *letters) awaitDeaths(ctx context.Context, deaths []*death) bool {
	if len(deaths) == 0 {
		return true
	}
	timer := time.NewTimer(awaitLetter)
	defer timer.Stop()
	for _, d := range deaths {
		select {
		case <-d.done:
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		}
	}
	return true
}

const awaitLetter = 2 * time.Second

// takeDeaths returns the deaths whose letters are to be written. It gives up those of a
// partition that belongs to another process, which will find the message itself.
func (e *engine) takeDeaths() (due []*death) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.deaths {
		if d.flight.lane.of.state == gone {
			close(d.done)
		} else {
			due = append(due, d)
		}
	}
	e.deaths = nil
	return due
}

// dieAgain has letters written that could not be written before.
func (e *engine) dieAgain(ds []*death) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaths = append(e.deaths, ds...)
	signal(e.dying)
}

// deadRecord is the dead letter of a message: its record as it was, and why.
func (s *letters) deadRecord(topic string, d *death) *kgo.Record {
	r, t := d.flight.rec, d.flight.trouble
	m := s.message(r)
	l := letter{
		Envelope: envelope, ID: m.ID, Topic: m.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Kind: string(d.kind), Reason: d.reason, FirstAt: d.at, DeadAt: d.at, Source: "consumer", Client: s.cfg.ClientID,
		Group:   s.cfg.Group,
		Handler: s.cfg.HandlerVersion,
	}
	if t != nil {
		l.Attempts, l.Rescues, l.Lonely, l.History = t.attempts, t.rescues, t.lonely, t.history
		if len(t.history) > 0 {
			l.FirstAt = t.history[0].EndedAt
		}
	}
	return s.letterRecord(topic, r, &l)
}

// foreign is a header of a message as it is in a dead letter. Records that were copied
// out of a topic of dead letters bring headers along that make a letter, or remove one,
// and would take effect here. They become headers of the message itself, so that
// nothing is lost.
func foreign(h kgo.RecordHeader) kgo.RecordHeader {
	if h.Key == headerDead || h.Key == headerGone {
		h.Key = escaped + h.Key
	}
	return h
}

// letterRecord wraps the record of a message in a letter.
func (s *letters) letterRecord(topic string, r *kgo.Record, l *letter) *kgo.Record {
	text, _ := json.Marshal(l) // its fields can always be encoded
	headers := make([]kgo.RecordHeader, 0, len(r.Headers)+7)
	for _, h := range r.Headers {
		headers = append(headers, foreign(h))
	}
	headers = append(headers,
		kgo.RecordHeader{Key: headerDead, Value: text},
		kgo.RecordHeader{Key: springTopic, Value: []byte(l.Topic)},
		kgo.RecordHeader{Key: springPartition, Value: binary.BigEndian.AppendUint32(nil, uint32(l.Partition))},
		kgo.RecordHeader{Key: springOffset, Value: binary.BigEndian.AppendUint64(nil, uint64(l.Offset))},
		kgo.RecordHeader{Key: springTimestamp, Value: binary.BigEndian.AppendUint64(nil,
			uint64(l.Timestamp.UnixMilli()))},
		kgo.RecordHeader{Key: springClass, Value: []byte(l.Kind)},
		kgo.RecordHeader{Key: springMessage, Value: []byte(l.Reason)},
	)
	return &kgo.Record{Topic: topic, Partition: l.Partition, Key: r.Key, Value: r.Value, Headers: headers,
		Timestamp: s.cfg.Now()}
}

func (c *Config) deadName(of string) string {
	if name, ok := c.DeadNames[of]; ok {
		return name
	}
	return of + c.DeadSuffix
}

// deadHome is the topic whose dead letters a topic has, if it is such a topic.
func (c *Config) deadHome(name string) (of string, ok bool) {
	for of, dead := range c.DeadNames {
		if dead == name {
			return of, true
		}
	}
	return strings.CutSuffix(name, c.DeadSuffix)
}

// DeadName is the name of the topic of a topic's dead letters.
func (s *letters) DeadName(of string) string { return s.cfg.deadName(of) }

// sourceProducer is the source of letters of messages that never got into their
// topic.
const sourceProducer = "producer"

// KindDelivery is the kind of a dead letter of a message that could not be
// delivered to its topic.
const KindDelivery pawl.Kind = "Delivery"

// Divert writes messages that could not be delivered to the topics of their dead
// letters, from where they can be replayed: all of them, or it returns an error.
func (s *letters) Divert(ctx context.Context, msgs []pawl.Message, why error) error {
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
		r := s.recordOf(m, id, now)
		records = append(records, s.letterRecord(name, r, &letter{
			Envelope: envelope, ID: id, Topic: m.Topic, Partition: s.partitionOf(name, m.Key), Offset: -1,
			Timestamp: now,
			Kind:      string(KindDelivery), Reason: why.Error(), FirstAt: now, DeadAt: now, Source: sourceProducer,
			Client: s.cfg.ClientID,
		}))
	}
	return s.explain("divert", errors.Join(s.produce(ctx, records)...))
}
