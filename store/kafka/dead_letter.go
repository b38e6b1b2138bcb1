package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
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

// awaitDeaths waits a bounded time for dead letters to be written, and tells whether
// all are. The lane of one that is not stays closed.
func (s *Store) awaitDeaths(ctx context.Context, deaths []*death) bool {
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
		if d.lane.of.state == gone {
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
func (s *Store) deadRecord(topic string, d *death) *kgo.Record {
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
func (s *Store) letterRecord(topic string, r *kgo.Record, l *letter) *kgo.Record {
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
