package pawl

import (
	"bytes"
	"maps"
	"strconv"
	"time"
)

// Delivery is one attempt of one message under a lease. A handler gets it,
// reads it, and may say what is to happen with its ack ([Delivery.Emit],
// [Delivery.Mark], [Delivery.Hold]). It is a copy: what a handler writes to its fields changes
// nothing. It belongs to the handler's goroutine until the handler returns.
type Delivery struct {
	Message
	// Token is the right to settle this delivery, and the only one. It is new with
	// each claim: the idempotency key for a downstream is the message's ID.
	Token Token
	// Attempt counts from 1; failed attempts count, releases, rescues and throttled
	// retries do not.
	Attempt int
	// Throttles counts the throttled retries since the message last failed in another
	// way; they are no attempts. ThrottledFor is how long ago the first of them was,
	// by the store's clock.
	Throttles    int
	ThrottledFor time.Duration
	// Rescues counts the leases of this message that ended unsettled. With two the
	// message is a suspect: its workers may have died of it.
	Rescues int
	// Replays counts how often the message came back from the dead letters.
	Replays int
	// EnqueuedAt is when the message was stored, by the store's clock.
	EnqueuedAt time.Time
	// Waited is how long the message had been visible when it was claimed, by
	// the store's clock.
	Waited time.Duration
	// LeaseFor is how long the lease was given for, and Deadline how long it can
	// be extended at most; both run from the moment the claim was sent.
	LeaseFor time.Duration
	Deadline time.Duration
	// Tail tells that a retry of it goes to the tail of its lane, which goes on without
	// it, as its run does.
	Tail bool
	// Log is the record that the message is in a log of other programs, too; nil of a
	// store that keeps no log.
	Log LogRecord

	emits []Message
	marks []Mark
	hold  time.Duration
	inTx  bool
}

// SetAckedInTx says that an ack of the delivery is in a transaction of the handler's. store.AckTx calls it.
func (d *Delivery) SetAckedInTx() { d.inTx = true }

// AckedInTx reports whether an ack of the delivery is in a transaction of the handler's.
func (d *Delivery) AckedInTx() bool { return d.inTx }

// Emit appends copies of messages if, and only if, this delivery is acked: both happen,
// or neither. Their ids are derived from this message's ([EmitID]). A negative delay is
// none, and a unique key with a negative time is free again at once. A message that no
// store takes makes the delivery a dead letter of kind [KindEmit]; [CheckEmit] reports
// it before the handler returns.
func (d *Delivery) Emit(msgs ...Message) {
	for _, m := range msgs {
		m.begun()
		m.Key, m.Body, m.Headers = bytes.Clone(m.Key), bytes.Clone(m.Body), maps.Clone(m.Headers)
		d.emits = append(d.emits, m)
	}
}

// begun makes times of the message that are over, and so negative, ones that a store takes.
func (m *Message) begun() {
	m.Delay = max(m.Delay, 0)
	if m.Unique.For != UntilClaimed {
		m.Unique.For = notOver(m.Unique.For)
	}
}

// CheckEmit reports the first of msgs that no store takes, and why, as an
// [*InvalidError]: what a delivery that emits them in one call would fail with. What
// only some stores refuse, or the size of all together, is not looked at.
func CheckEmit(msgs ...Message) error {
	for i, m := range msgs {
		m.begun()
		if err := m.Validate(); err != nil {
			return Invalid("emit", "[%d] to topic %.80q: %v", i, m.Topic, err)
		}
	}
	return nil
}

// Emitted returns what the handler emitted, in order.
func (d *Delivery) Emitted() []Message { return d.emits }

// Mark writes copies of marks if, and only if, this delivery is acked: an entry of a ledger, or
// what has been seen. A mark whose If does not match what is there is skipped, and the
// ack stands. A mark that is kept for a negative time has expired at once. Where the store keeps no marks the delivery
// fails.
func (d *Delivery) Mark(marks ...Mark) {
	for _, m := range marks {
		m.Value, m.For = bytes.Clone(m.Value), notOver(m.For)
		d.marks = append(d.marks, m)
	}
}

// Marked returns what was given to [Delivery.Mark], in order.
func (d *Delivery) Marked() []Mark { return d.marks }

// Hold keeps the lane closed for that long after this delivery, whatever becomes
// of it: politeness towards a host or a chat, across processes. It matters in a
// topic with order by key. Of deliveries that a batch handler got of one lane the
// longest hold counts, after the last of them. It is [MaxPause] at most; a negative one is none.
func (d *Delivery) Hold(pause time.Duration) { d.hold = min(max(pause, 0), MaxPause) }

// HoldFor returns what was last given to [Delivery.Hold].
func (d *Delivery) HoldFor() time.Duration { return d.hold }

// LogRecord is what a log has of a message beside what every store has. Methods may be
// called, also concurrently, until the handler returns.
type LogRecord interface {
	// Partition is the part of its topic's log that it is in.
	Partition() int32
	// Offset is its place in that partition.
	Offset() int64
	// Timestamp is when it was produced, by the clock of its producer or of the log.
	Timestamp() time.Time
	// NullBody reports whether the record has no body at all, as a tombstone has; an empty
	// body is a body.
	NullBody() bool
	// RawHeaders are copies of all its headers in order: also repeated names, Pawl's own,
	// and values that are not text. [Message.Headers] has the last of each name, as text.
	RawHeaders() []RawHeader
}

// RawHeader is a header of a record as it is in a log.
type RawHeader struct {
	Name  string
	Value []byte // nil: it has none
}

// Token names one message under one lease. It is comparable, and opaque to all but the
// store that made it.
type Token struct {
	// Fence is a random 63-bit number, new with every claim. A settle or extend
	// whose fence is not the lane's current one changes nothing.
	Fence int64
	// Lane and Seq are the store's coordinates. Deliveries with the same Lane
	// and Fence are one run.
	Lane, Seq int64
}

// String returns a form that is unique for the delivery.
func (t Token) String() string {
	b := strconv.AppendInt(nil, t.Fence, 36)
	b = strconv.AppendInt(append(b, '.'), t.Lane, 36)
	return string(strconv.AppendInt(append(b, '.'), t.Seq, 36))
}
