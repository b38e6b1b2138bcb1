package wire

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Draft is a message as a program wrote it. A point in time becomes a delay only
// when the message is appended: see [Draft.Message].
type Draft struct {
	pawl.Message
	NotBefore time.Time // zero: none was stated
	retryFor  time.Duration
	timeout   time.Duration
	attempts  int
}

// At returns the message as it is to be appended now. What is due already has no
// delay.
func (d *Draft) At(now time.Time) pawl.Message {
	m := d.Message
	if !d.NotBefore.IsZero() {
		m.Delay = max(0, d.NotBefore.Sub(now))
	}
	return m
}

// ParseMessage reads one message. The draft keeps no part of line. A field that
// is null counts as left out. The error is an [*Error].
//
//	{"topic", "id", "key" | "key_base64", "priority", "body" | "body_base64" | "json", "headers",
//	 "not_before" | "delay_seconds", "retry_for_seconds", "attempts", "timeout_seconds", "unique_key", "unique_for_seconds" | "unique": {"key", "scope",
//	 "for_seconds" | "until_claimed"}}
//
// All are optional here. A body is text; an object or array as body is taken as
// the text that it is written with, and so is any value of json.
func ParseMessage(line []byte) (Draft, error) {
	s := scan(line)
	var d Draft
	s.draft(&d)
	if err := s.end(); err != nil {
		return Draft{}, err
	}
	return d, nil
}

var messageFields = []string{"topic", "id", "key", "key_base64", "priority", "body", "body_base64", "json", "headers",
	"not_before", "delay_seconds", "retry_for_seconds", "attempts", "timeout_seconds", "unique", "unique_key", "unique_for_seconds"}

// group returns which fields exclude each other.
var group = map[string]string{
	"key": "key", "key_base64": "key", "body": "body", "body_base64": "body", "json": "body",
	"not_before": "not_before", "delay_seconds": "not_before", "for_seconds": "for", "until_claimed": "for",
	"unique": "unique", "unique_key": "unique",
}

// draft reads a message object.
func (s *scanner) draft(d *Draft) {
	var seen fieldSet
	s.fields(func(name []byte, at int) {
		field := messageField(name)
		if field == "" || s.strict && (field == "unique_key" || field == "unique_for_seconds") {
			s.fail(at, "unknown field %.40q; a message has: %s", name, strings.Join(messageFields, ", "))
			return
		}
		if field != "json" && s.null() {
			return
		}
		if other := seen.add(field); other != "" {
			s.fail(at, "%s and %s are given; give one", other, field)
			return
		}
		s.messageValue(field, d)
	})
	if d.retryFor > 0 {
		d.RetryFor(d.retryFor)
	}
	if d.attempts > 0 {
		d.RetryUpTo(d.attempts)
	}
	if d.timeout > 0 {
		d.LimitTime(d.timeout)
	}
	d.retryFor, d.attempts, d.timeout = 0, 0, 0
}

// fieldSet remembers the fields of an object.
type fieldSet struct{ names []string }

// add returns the field that was there already and excludes this one, if any.
func (f *fieldSet) add(name string) string {
	for _, have := range f.names {
		if have == name || group[name] != "" && group[have] == group[name] {
			return have
		}
	}
	f.names = append(f.names, name)
	return ""
}

// messageField returns the field of that name without allocating, "" if there is none.
func messageField(name []byte) string {
	for _, known := range messageFields {
		if string(name) == known {
			return known
		}
	}
	return ""
}

func (s *scanner) messageValue(field string, d *Draft) {
	switch field {
	case "topic":
		d.Topic = string(s.text())
	case "id":
		d.ID = string(s.text())
	case "key":
		d.Key = owned(s.text())
	case "key_base64":
		d.Key = s.base64()
	case "priority":
		d.Priority = s.integer()
	case "body":
		d.Body = s.body()
	case "body_base64":
		d.Body = s.base64()
	case "json":
		d.Body = owned(s.skip())
	case "headers":
		d.Headers = s.headers()
	case "not_before":
		s.peek()
		at := s.pos
		if d.NotBefore = s.time(); time.Until(d.NotBefore) > pawl.MaxDelay {
			s.fail(at, "it is further ahead than %.0f seconds", pawl.MaxDelay.Seconds())
		}
	case "delay_seconds":
		d.Delay = s.seconds()
	case "retry_for_seconds":
		d.retryFor = s.ahead(field)
	case "timeout_seconds":
		d.timeout = s.ahead(field)
	case "attempts":
		d.attempts = int(s.above(field, func() time.Duration { return time.Duration(max(s.integer(), 0)) }))
	case "unique":
		s.unique(&d.Unique)
	case "unique_key":
		d.Unique.Key = string(s.text())
	case "unique_for_seconds":
		d.Unique.For = s.uniqueFor()
	}
}

// over is in place of a duration that has passed already. It must not be 0, which says something else.
const over = time.Millisecond

// passed reports whether the next value is a negative duration that is to be taken, and skips it.
func (s *scanner) passed() bool {
	taken := s.emitted && s.peek() == '-'
	if taken {
		s.number()
	}
	return taken
}

// above reads a value that is not 0.
func (s *scanner) above(field string, read func() time.Duration) time.Duration {
	s.peek()
	at := s.pos
	n := read()
	if s.err == nil && n == 0 {
		s.fail(at, "%s is more than 0", field)
	}
	return n
}

// ahead reads a duration that is not 0.
func (s *scanner) ahead(field string) time.Duration {
	if s.passed() {
		return over
	}
	return s.above(field, s.seconds)
}

// owned copies b out of the line. Empty stays apart from absent.
func owned(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// body reads a text, or the raw JSON of an object or array.
func (s *scanner) body() []byte {
	switch s.peek() {
	case '"':
		return owned(s.text())
	case '{', '[':
		if !s.strict {
			return owned(s.skip())
		}
	}
	if s.strict {
		s.unexpected("a text as body; json takes any value")
	} else {
		s.unexpected("a text, an object or an array as body")
	}
	return nil
}

// unique reads what must not exist twice.
func (s *scanner) unique(u *pawl.Unique) {
	var seen fieldSet
	s.peek()
	begin := s.pos
	s.fields(func(name []byte, at int) {
		if s.null() {
			return
		}
		field := string(name)
		if other := seen.add(field); other != "" {
			s.fail(at, "%s and %s are given; give one", other, field)
			return
		}
		switch field {
		case "key":
			u.Key = string(s.text())
		case "scope":
			u.Scope = string(s.text())
		case "for_seconds":
			if s.passed() {
				u.For = over
				return
			}
			if s.peek() == '-' {
				s.fail(s.pos, "it is not negative; until_claimed: true is until the message is claimed")
			}
			u.For = s.seconds()
		case "until_claimed":
			if s.boolean() {
				u.For = pawl.UntilClaimed
			}
		default:
			s.fail(at, "unknown field %.40q; unique has: key, scope, for_seconds, until_claimed", name)
		}
	})
	if s.err == nil && u.Key == "" {
		s.fail(begin, "unique needs a key")
	}
}

func (s *scanner) boolean() bool {
	if c := s.peek(); c != 't' && c != 'f' {
		s.unexpected("true or false")
		return false
	}
	return s.skip()[0] == 't'
}

func (s *scanner) base64() []byte {
	s.peek()
	at := s.pos
	text := s.text()
	if s.err != nil {
		return nil
	}
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(b, text)
	if err != nil {
		s.fail(at, "not base64 (the standard alphabet, with padding): %v", err)
	}
	return b[:n]
}

func (s *scanner) headers() map[string]string {
	h := map[string]string{}
	s.fields(func(name []byte, at int) {
		key := string(name)
		if _, twice := h[key]; twice {
			s.fail(at, "header %.40q is given twice", key)
			return
		}
		if len(h) > pawl.MaxHeaders {
			s.fail(at, "more than %d headers", pawl.MaxHeaders)
			return
		}
		h[key] = string(s.text())
	})
	return h
}

func (s *scanner) integer() int {
	at := s.pos
	text := s.number()
	n, err := strconv.Atoi(string(text))
	if s.err == nil && err != nil {
		s.fail(at, "%.40s is not a whole number of reasonable size", text)
	}
	return n
}

// seconds reads a duration of up to [pawl.MaxDelay]; a negative one is none.
func (s *scanner) seconds() time.Duration {
	at := s.pos
	text := s.number()
	if s.err != nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if most := pawl.MaxDelay; err != nil || f > most.Seconds() {
		s.fail(at, "%.40s seconds; a duration is at most %.0f", text, most.Seconds())
		return 0
	}
	return time.Duration(math.Round(max(f, 0) * float64(time.Second)))
}

// pause reads how long something is to wait after work that is done: of what is too long it is [pawl.MaxPause],
// because the work is not undone.
func (s *scanner) pause() time.Duration {
	text := s.number()
	f, _ := strconv.ParseFloat(string(text), 64) // beyond its range it is infinite
	return time.Duration(math.Round(min(max(f, 0), pawl.MaxPause.Seconds()) * float64(time.Second)))
}

// uniqueFor is a duration in seconds, or -1: until the message is claimed.
func (s *scanner) uniqueFor() time.Duration {
	s.peek()
	at := s.pos
	n := s.number()
	if s.err == nil && string(n) == "-1" {
		return pawl.UntilClaimed
	}
	if s.err == nil && n[0] == '-' && s.emitted {
		return over
	}
	if s.err == nil && n[0] == '-' {
		s.fail(at, "%.40s seconds; the key is taken for a positive time, or -1: until the message is claimed", n)
		return 0
	}
	s.pos = at
	return s.seconds()
}

func (s *scanner) time() time.Time {
	s.peek()
	at := s.pos
	text := s.text()
	if s.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		s.fail(at, "%.60q is not a time as in RFC 3339 (2026-01-31T12:00:00Z)", text)
	}
	return t
}
