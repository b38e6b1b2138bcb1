package kafka

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
)

// Headers that a record of ours carries beside the message's own. A record
// without them is a message, too: any producer may write to the topic.
const (
	headerID       = "pawl-id"       // of the message; without it: topic/partition/offset
	headerPriority = "pawl-priority" // 1 to 100
	headerReplays  = "pawl-replays"  // how often it was replayed from the dead letters
	headerReplay   = "pawl-replay"   // the id of its last replay
	headerHistory  = "pawl-history"  // its failed attempts before that, as JSON
	headerReplayed = "replayed"      // "true", beside these, for other consumers
	ownPrefix      = "pawl-"
	// The prefix for headers of a message whose names begin like ours.
	escaped = "pawl-own-"
)

// wire is the name that a topic has at the brokers, plain the one it has here.
func (s *core) wire(topic string) string { return s.cfg.Prefix + topic }
func (s *core) plain(wire string) string { return strings.TrimPrefix(wire, s.cfg.Prefix) }

// recordOf returns the record to produce for a message. It shares key and body with it.
func (s *core) recordOf(m *pawl.Message, id string, now time.Time) *kgo.Record {
	r := &kgo.Record{Topic: s.wire(m.Topic), Key: m.Key, Value: m.Body, Timestamp: now}
	r.Headers = make([]kgo.RecordHeader, 0, 2+len(m.Headers))
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerID, Value: []byte(id)})
	if m.Priority != 0 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerPriority,
			Value: strconv.AppendInt(nil, int64(m.Priority), 10)})
	}
	for name, value := range m.Headers {
		if strings.HasPrefix(name, ownPrefix) {
			name = escaped + name
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return r
}

// header returns the value of the last header with that name.
func header(r *kgo.Record, name string) (string, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == name {
			return string(r.Headers[i].Value), true
		}
	}
	return "", false
}

// idIn returns the id that headers give a message; nothing if there is none, or
// none that can be one.
func idIn(headers []kgo.RecordHeader) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if value := headers[i].Value; headers[i].Key == headerID && len(value) > 0 && len(value) <= pawl.MaxID &&
			utf8.Valid(value) {
			return value
		}
	}
	return nil
}

// readHeaders sets the message's id, if it has none yet, priority and own headers. Of several
// headers with one name the last counts; values that are not text are made text, because the
// untouched record itself goes to the dead letters.
func readHeaders(m *pawl.Message, headers []kgo.RecordHeader) (replays int) {
	if m.ID == "" {
		m.ID = string(idIn(headers))
	}
	for i := range headers {
		value := headers[i].Value
		switch headers[i].Key {
		case headerPriority:
			if p, err := strconv.Atoi(string(value)); err == nil && p > 0 && p <= pawl.MaxPriority {
				m.Priority = p
			}
		case headerReplays:
			replays, _ = strconv.Atoi(string(value))
		}
		name, ok := nameOf(headers[i].Key)
		if !ok {
			continue
		}
		if m.Headers == nil {
			m.Headers = make(map[string]string, len(headers)-i)
		}
		text := string(value)
		if !utf8.Valid(value) {
			text = strings.ToValidUTF8(text, "\uFFFD")
		}
		m.Headers[strings.ToValidUTF8(name, "\uFFFD")] = text
	}
	if replays > 0 {
		delete(m.Headers, headerReplayed)
		if len(m.Headers) == 0 {
			m.Headers = nil
		}
	}
	return replays
}

// nameOf is the name that a header of a record has in its message; false if it is a header
// of Pawl, not of the message.
func nameOf(key string) (string, bool) {
	if !strings.HasPrefix(key, ownPrefix) {
		return key, true
	}
	return strings.CutPrefix(key, escaped)
}

// placeID is the id of a message that came without one: its place.
func placeID(topic string, partition int32, offset int64) string {
	b := append(make([]byte, 0, len(topic)+24), topic...)
	b = strconv.AppendInt(append(b, '/'), int64(partition), 10)
	return string(strconv.AppendInt(append(b, '/'), offset, 10))
}

// sizeOf is the size of a record against byte limits: that of its message.
func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		if name, ok := nameOf(r.Headers[i].Key); ok {
			n += len(name) + len(r.Headers[i].Value)
		}
	}
	return n
}

func sizesOf(records []*kgo.Record) (n int) {
	for _, r := range records {
		n += sizeOf(r)
	}
	return n
}

// message is the message that a record carries. It shares memory with the
// record.
func (s *core) message(r *kgo.Record) pawl.Message {
	m := pawl.Message{Topic: s.plain(r.Topic), Key: r.Key, Body: r.Value}
	readHeaders(&m, r.Headers)
	if m.ID == "" {
		m.ID = placeID(m.Topic, r.Partition, r.Offset)
	}
	return m
}

// logRecord is the read-only view of a record that handlers get.
type logRecord struct{ record *kgo.Record }

// Partition implements [pawl.LogRecord].
func (l logRecord) Partition() int32 { return l.record.Partition }

// Offset implements [pawl.LogRecord].
func (l logRecord) Offset() int64 { return l.record.Offset }

// Timestamp implements [pawl.LogRecord].
func (l logRecord) Timestamp() time.Time { return l.record.Timestamp }

// NullBody implements [pawl.LogRecord].
func (l logRecord) NullBody() bool { return l.record.Value == nil }

// RawHeaders implements [pawl.LogRecord].
func (l logRecord) RawHeaders() []pawl.RawHeader {
	all := make([]pawl.RawHeader, len(l.record.Headers))
	for i, h := range l.record.Headers {
		all[i] = pawl.RawHeader{Name: h.Key, Value: bytes.Clone(h.Value)}
	}
	return all
}
