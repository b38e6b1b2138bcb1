package spill

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The headers that a message has beside its own while it is in the fallback store.
const (
	headerPrefix  = "pawl-spill-"
	HeaderTopic   = headerPrefix + "topic"   // where it belongs
	HeaderOutcome = headerPrefix + "outcome" // failed or unknown
	HeaderSince   = headerPrefix + "since"   // when it was spilled, by the clock of the process that did
	HeaderError   = headerPrefix + "error"   // why, cut
	headerRest    = headerPrefix + "rest"    // priority, delay and unique key, as JSON
	headerPacked  = headerPrefix + "packed"  // all headers are in front of the body
)

// maxError bounds the error in a header, in bytes.
const maxError = 512

// rest is what the fallback store does not keep as its own.
type rest struct {
	Priority int           `json:"priority,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"`
	Unique   []byte        `json:"unique,omitempty"`
	Scope    []byte        `json:"scope,omitempty"`
	For      time.Duration `json:"for,omitempty"`
}

// prefix begins the names of topics in the fallback store.
const prefix = "spill."

// topicOf is the topic of the fallback store for rows of a topic. A name that
// would be too long ends in a hash.
func topicOf(topic string) string {
	name := prefix + topic
	if len(name) <= pawl.MaxTopic {
		return name
	}
	sum := sha256.Sum256([]byte(topic))
	tail := "-" + hex.EncodeToString(sum[:12])
	return name[:pawl.MaxTopic-len(tail)] + tail
}

// toRow makes a message the row that the fallback store keeps of it. A row has no
// priority and no delay, so that rows of a key are listed in the order of their
// lane; both come back with the message.
func toRow(m pawl.Message, outcome store.Outcome, since time.Time, why error) (pawl.Message, error) {
	own := map[string]string{
		HeaderTopic: m.Topic, HeaderOutcome: string(outcome), HeaderSince: since.UTC().Format(time.RFC3339Nano),
	}
	if why != nil {
		own[HeaderError] = cut(why.Error())
	}
	if m.Priority != 0 || m.Delay != 0 || m.Unique != (pawl.Unique{}) {
		b, err := json.Marshal(rest{m.Priority, m.Delay, []byte(m.Unique.Key), []byte(m.Unique.Scope), m.Unique.For})
		if err != nil {
			return pawl.Message{}, err
		}
		own[headerRest] = string(b)
	}
	row := pawl.Message{ID: m.ID, Topic: topicOf(m.Topic), Key: m.Key, Body: m.Body,
		Headers: make(map[string]string, len(m.Headers)+len(own))}
	foreign := false
	for k, v := range m.Headers {
		foreign = foreign || strings.HasPrefix(k, headerPrefix)
		row.Headers[k] = v
	}
	maps.Copy(row.Headers, own)
	if !foreign && row.Validate() == nil {
		return row, nil
	}
	return pack(row, own, m.Headers)
}

// cut makes the text of an error fit for a header.
func cut(s string) string {
	if len(s) > maxError {
		s = s[:maxError]
	}
	return store.Text(s)
}

// pack puts headers that have no room beside ours in front of the body.
func pack(row pawl.Message, own, theirs map[string]string) (pawl.Message, error) {
	head, err := json.Marshal([]map[string]string{own, theirs})
	if err != nil {
		return row, err
	}
	b := binary.AppendUvarint(make([]byte, 0, len(head)+len(row.Body)+binary.MaxVarintLen64), uint64(len(head)))
	row.Body = append(append(b, head...), row.Body...)
	row.Headers = maps.Clone(own)
	row.Headers[headerPacked] = "1"
	return row, row.Validate()
}

// fromRow is the message of a row, and what was known of it when it was spilled.
// waited is for how long it has been a row: so much of a delay is over.
func fromRow(row pawl.Message, waited time.Duration) (pawl.Message, store.Outcome, error) {
	own, body := row.Headers, row.Body
	var theirs map[string]string
	if row.Headers[headerPacked] != "" {
		n, at := binary.Uvarint(row.Body)
		if at <= 0 || n > uint64(len(row.Body)-at) {
			return row, "", fmt.Errorf("row %s: its headers are damaged", row.ID)
		}
		var both []map[string]string
		if err := json.Unmarshal(row.Body[at:at+int(n)], &both); err != nil || len(both) != 2 {
			return row, "", fmt.Errorf("row %s: its headers are damaged: %w", row.ID, err)
		}
		own, theirs, body = both[0], both[1], row.Body[at+int(n):]
	} else {
		theirs = maps.Clone(row.Headers)
		maps.DeleteFunc(theirs, func(k, _ string) bool { return strings.HasPrefix(k, headerPrefix) })
	}
	if len(theirs) == 0 {
		theirs = nil
	}
	m := pawl.Message{ID: row.ID, Topic: own[HeaderTopic], Key: row.Key, Body: body, Headers: theirs}
	if text := own[headerRest]; text != "" {
		var r rest
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return row, "", fmt.Errorf("row %s: header %s: %w", row.ID, headerRest, err)
		}
		m.Priority, m.Delay = r.Priority, max(0, r.Delay-waited)
		m.Unique = pawl.Unique{Key: string(r.Unique), Scope: string(r.Scope), For: r.For}
	}
	if err := m.Validate(); err != nil {
		return row, "", fmt.Errorf("row %s is not a message: %w", row.ID, err)
	}
	return m, store.Outcome(own[HeaderOutcome]), nil
}

// ours reports whether a topic of the fallback store is one of rows.
func ours(name string) bool { return strings.HasPrefix(name, prefix) }

// Kept yields the messages that are rows, dead ones too, as they were when they were
// appended. It is for callers that need every message of the store (codec.Keeper): the
// primary store's listings do not show these.
func (s *Store) Kept(ctx context.Context) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		letters, _ := store.As[store.DeadLetters](s.fallback) // New has seen to it
		// Live ones first: what is buried meanwhile is seen among the dead.
		for _, rows := range []iter.Seq2[store.Record, error]{
			s.inspector.List(ctx, store.Filter{}), letters.Dead(ctx, store.DeadFilter{}),
		} {
			for r, err := range rows {
				if err == nil && !ours(r.Topic) {
					continue
				}
				if err == nil && r.Headers[HeaderTopic] != "" { // or another program put it there
					if r.Message, _, err = fromRow(r.Message, 0); err != nil {
						err = &store.Error{Op: "list rows", Code: store.ErrCorrupt, Err: err,
							Hint: "it cannot come back: look at it in the fallback store, and remove it there"}
					}
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}
