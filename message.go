package pawl

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a message. They are part of the contract: every store takes a
// message within them, unless its topic is full, and refuses one beyond them, before
// any I/O.
const (
	MaxTopic     = 128            // bytes of a topic name
	MaxID        = 128            // bytes of an id
	MaxKey       = 1 << 10        // bytes of a key, and of a unique key or scope
	MaxHeaders   = 128            // headers of a message
	MaxHeaderLen = 32 << 10       // bytes of all header names and values together
	MaxBody      = 16 << 20       // bytes of a body
	MaxPriority  = 100            // the critical class
	MaxDelay     = 10 * year      // how far ahead a message may be put off
	MaxPause     = 24 * time.Hour // for how long a verdict puts a message off, or closes its lane, at most
	Forever      = math.MaxInt64  // a [Unique.For] that never ends
	year         = 8766 * time.Hour

	// HeaderRetryFor is the header that says for how long a message is retried, in place of what its topic says:
	// a duration such as 48h. [Message.RetryFor] sets it.
	HeaderRetryFor = "Pawl-Retry-For"

	// HeaderAttempts is the header that says how many attempts a message has, in place of what its topic says: from
	// 1 to 1000. [Message.RetryUpTo] sets it.
	HeaderAttempts = "Pawl-Attempts"

	// HeaderTimeout is the header that says how long an attempt of a message may take, such as 30s. The deadline of its
	// topic ends it in any case. [Message.LimitTime] sets it.
	HeaderTimeout = "Pawl-Timeout"

	// UntilClaimed, as [Unique.For], takes the key until the message is claimed for the
	// first time: a doorbell. A message sent while the first one waits is a duplicate;
	// one sent after a worker has claimed it is stored.
	UntilClaimed = -time.Second
)

// Message is an immutable piece of work. The zero value of every field but
// Topic is useful.
type Message struct {
	// ID identifies the message wherever it goes. Empty: Append assigns [NewID].
	// A store holds at most one message of an id, dead letters and retained ones
	// included; a second one is a duplicate.
	ID string
	// Topic selects the handler: 1 to [MaxTopic] of A-Z a-z 0-9 . _ -
	Topic string
	// Key names the lane in a topic with order by key. Bytes; nil is no key, an
	// empty key is refused.
	Key []byte
	// Priority orders lanes, from 0 (bulk, the default) to 100 (critical).
	// Waiting counts like priority, at the topic's ageing.
	Priority int
	// Body is the payload; Pawl never looks into it.
	Body []byte
	// Headers travel with the message: trace context, content type and such.
	// Names are not empty; names and values are valid UTF-8.
	Headers map[string]string
	// Delay puts the message off: it becomes visible that long after the store
	// took it, by the store's clock, and joins the tail of its lane then.
	Delay time.Duration
	// Unique, when its Key is set, admits only the first message with it.
	Unique Unique
}

// Unique names what must not exist twice. The first message with a Key in a Scope wins;
// the others are not stored, and their receipts name the winner.
type Unique struct {
	Key   string // empty: not unique
	Scope string // empty: the message's topic
	// For says how long the key is taken: 0 while the message lives (until it is acked,
	// dead or cancelled), a duration from when it was stored, [Forever], or
	// [UntilClaimed]. A key that outlives its message also refuses that same message
	// when it is sent again.
	For time.Duration
}

// Size is what a message counts against byte limits: body, key and headers.
func (m *Message) Size() int {
	n := len(m.Body) + len(m.Key)
	for k, v := range m.Headers {
		n += len(k) + len(v)
	}
	return n
}

// Validate reports the first thing in m that no store accepts, as an [*InvalidError].
func (m *Message) Validate() error {
	if err := ValidTopic(m.Topic); err != nil {
		return err
	}
	switch {
	case len(m.ID) > MaxID:
		return Invalid("id", "is %d bytes long; the limit is %d", len(m.ID), MaxID)
	case !printable(m.ID):
		return Invalid("id", "must be valid UTF-8 without control characters")
	case m.Key != nil && len(m.Key) == 0:
		return Invalid("key", "is empty; leave it out for a message without a key")
	case len(m.Key) > MaxKey:
		return Invalid("key", "is %d bytes long; the limit is %d", len(m.Key), MaxKey)
	case m.Priority < 0 || m.Priority > MaxPriority:
		return Invalid("priority", "is %d; it goes from 0 to %d", m.Priority, MaxPriority)
	case len(m.Body) > MaxBody:
		return Invalid("body", "is %d bytes long; the limit is %d", len(m.Body), MaxBody)
	case m.Delay < 0 || m.Delay > MaxDelay:
		return Invalid("delay", "is %v; it goes from 0 to %v", m.Delay, MaxDelay)
	}
	if err := m.validHeaders(); err != nil {
		return err
	}
	return m.Unique.validate()
}

func (m *Message) validHeaders() error {
	if len(m.Headers) > MaxHeaders {
		return Invalid("headers", "are %d; the limit is %d", len(m.Headers), MaxHeaders)
	}
	size := 0
	for k, v := range m.Headers {
		if k == "" || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return Invalid("headers", "need names, and valid UTF-8 in names and values (%.40q)", k)
		}
		size += len(k) + len(v)
	}
	if size > MaxHeaderLen {
		return Invalid("headers", "are %d bytes long together; the limit is %d", size, MaxHeaderLen)
	}
	for _, name := range [...]string{HeaderRetryFor, HeaderTimeout} {
		if text, ok := m.Headers[name]; ok && m.duration(name) == 0 {
			return Invalid("header "+name, "is %.40q; it is a duration such as 48h, up to %v", text, MaxDelay)
		}
	}
	if text, ok := m.Headers[HeaderAttempts]; ok && m.RetriedUpTo() == 0 {
		return Invalid("header "+HeaderAttempts, "is %.40q; it is a number from 1 to %d", text, mostAttempts)
	}
	return nil
}

// mostAttempts is how many attempts any rule allows at most.
const mostAttempts = 1000

// RetryFor says for how long failures of the message are retried, in place of the bounds of its topic. It sets a
// header. A negative time is over: no failure is retried.
func (m *Message) RetryFor(d time.Duration) { m.set(HeaderRetryFor, notOver(d).String()) }

// RetryUpTo says how many attempts the message has, in place of the bounds of its topic. It sets a header.
func (m *Message) RetryUpTo(attempts int) { m.set(HeaderAttempts, strconv.Itoa(attempts)) }

// LimitTime says how long an attempt may take: the context of its handler ends then, or at the deadline of the topic if
// that is sooner. It sets a header. A negative time is over at once.
func (m *Message) LimitTime(d time.Duration) { m.set(HeaderTimeout, notOver(d).String()) }

// notOver is d, and a moment if that is negative: a time that is over must not be 0, which says something else.
func notOver(d time.Duration) time.Duration {
	if d < 0 {
		return time.Millisecond
	}
	return d
}

func (m *Message) set(header, value string) {
	headers := maps.Clone(m.Headers) // it may be shared between messages
	if headers == nil {
		headers = map[string]string{}
	}
	headers[header] = value
	m.Headers = headers
}

// RetriedFor is for how long the message says that its failures are retried; 0 if it says nothing.
func (m *Message) RetriedFor() time.Duration { return m.duration(HeaderRetryFor) }

// RetriedUpTo is how many attempts the message says that it has; 0 if it says nothing.
func (m *Message) RetriedUpTo() int {
	n, err := strconv.Atoi(m.Headers[HeaderAttempts])
	if err != nil || n < 1 || n > mostAttempts {
		return 0
	}
	return n
}

// TimeLimit is how long the message says that an attempt may take; 0 if it says nothing.
func (m *Message) TimeLimit() time.Duration { return m.duration(HeaderTimeout) }

// duration is what a header says; 0 if there is none, or none that is valid.
func (m *Message) duration(header string) time.Duration {
	text, ok := m.Headers[header]
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > MaxDelay {
		return 0
	}
	return d
}

func (u *Unique) validate() error {
	switch {
	case u.Key == "" && (u.Scope != "" || u.For != 0):
		return Invalid("unique key", "is empty, but a scope or a duration is set")
	case len(u.Key) > MaxKey || len(u.Scope) > MaxKey:
		return Invalid("unique key", "or scope is longer than %d bytes", MaxKey)
	case u.For < 0 && u.For != UntilClaimed:
		return Invalid("unique key", "has a negative duration %v", u.For)
	}
	return nil
}

// ValidTopic reports why name is not valid for a topic, as an [*InvalidError].
func ValidTopic(name string) error {
	if name == "" {
		return Invalid("topic", "is missing")
	}
	if len(name) > MaxTopic {
		return Invalid("topic", "is %d bytes long; the limit is %d", len(name), MaxTopic)
	}
	for i, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		switch {
		case letter, c == '.', c == '_', c == '-':
		case !utf8.ValidString(name[i:min(i+utf8.RuneLen(c), len(name))]):
			return Invalid("topic", "%q holds byte %#x, which is no UTF-8; a topic is made of A-Z a-z 0-9 . _ -",
				name, name[i])
		default:
			return Invalid("topic", "%q holds %q; a topic is made of A-Z a-z 0-9 . _ -", name, c)
		}
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// InvalidError says which field of a message is invalid, and why.
type InvalidError struct {
	Field string
	Why   string
}

func (e *InvalidError) Error() string { return e.Field + " " + e.Why }

// Invalid makes an [*InvalidError]; why is a format.
func Invalid(field, why string, args ...any) error {
	return &InvalidError{Field: field, Why: fmt.Sprintf(why, args...)}
}
