package wire

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// AppendDelivery appends d as a line, with its end:
//
//	{"id", "topic", "key", "attempt", "last_attempt", "deadline", "token", "headers", "body" | "body_base64"}
//
// A zero deadline is left out; all other fields are always there. A message without a key
// has null there; one whose key is not valid UTF-8 has null and "key_base64". What a log has
// of a message is in "log", behind "headers".
func AppendDelivery(dst []byte, d *pawl.Delivery, deadline time.Time, last bool) []byte {
	dst = appendIdentity(dst, d)
	dst = append(dst, `,"last_attempt":`...)
	dst = strconv.AppendBool(dst, last)
	if !deadline.IsZero() {
		dst = append(dst, `,"deadline":"`...)
		dst = append(AppendTime(dst, deadline), '"')
	}
	return append(appendContent(dst, d, d.Token.String()), "}\n"...)
}

// AppendLeased appends d as the HTTP API hands it out, under a token of its own:
//
//	{"id", "topic", "key", "attempt", "token", "headers", "body" | "body_base64",
//	 "priority", "lease_seconds", "deadline_seconds", "enqueued_at"}
func AppendLeased(dst []byte, d *pawl.Delivery, token string) []byte {
	dst = appendContent(appendIdentity(dst, d), d, token)
	dst = append(dst, `,"priority":`...)
	dst = strconv.AppendInt(dst, int64(d.Priority), 10)
	dst = append(dst, `,"lease_seconds":`...)
	dst = strconv.AppendFloat(dst, d.LeaseFor.Seconds(), 'f', -1, 64)
	dst = append(dst, `,"deadline_seconds":`...)
	dst = strconv.AppendFloat(dst, min(d.Deadline, cmp.Or(d.TimeLimit(), d.Deadline)).Seconds(), 'f', -1, 64)
	dst = append(dst, `,"enqueued_at":"`...)
	dst = d.EnqueuedAt.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, `"}`...)
}

// appendIdentity begins the object of a delivery: id, topic, key and attempt.
func appendIdentity(dst []byte, d *pawl.Delivery) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendText(dst, d.ID)
	dst = append(dst, `,"topic":`...)
	dst = AppendText(dst, d.Topic)
	dst = append(dst, `,"key":`...)
	dst = appendKey(dst, d.Key)
	dst = append(dst, `,"attempt":`...)
	return strconv.AppendInt(dst, int64(d.Attempt), 10)
}

// appendContent appends the token, the headers and the body of d.
func appendContent(dst []byte, d *pawl.Delivery, token string) []byte {
	dst = append(dst, `,"token":`...)
	dst = AppendText(dst, token)
	dst = append(dst, `,"headers":`...)
	dst = AppendHeaders(dst, d.Headers)
	if d.Log != nil {
		dst = append(dst, `,"log":`...)
		dst = AppendLog(dst, d.Log)
	}
	if utf8.Valid(d.Body) {
		dst = append(dst, `,"body":`...)
		dst = AppendText(dst, d.Body)
	} else {
		dst = append(dst, `,"body_base64":`...)
		dst = appendBase64(dst, d.Body)
	}
	return dst
}

func appendKey(dst, key []byte) []byte {
	switch {
	case key == nil:
		return append(dst, "null"...)
	case utf8.Valid(key):
		return AppendText(dst, key)
	}
	dst = append(dst, `null,"key_base64":`...)
	return appendBase64(dst, key)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// AppendHeaders appends h as an object, its names in order.
func AppendHeaders(dst []byte, h map[string]string) []byte {
	dst = append(dst, '{')
	if len(h) > 0 {
		names := make([]string, 0, len(h))
		for name := range h {
			names = append(names, name)
		}
		slices.Sort(names)
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendText(dst, name)
			dst = append(dst, ':')
			dst = AppendText(dst, h[name])
		}
	}
	return append(dst, '}')
}

// AppendLog appends what a log has of a message as an object:
//
//	{"partition", "offset", "timestamp", "null_body", "headers": [{"name", "value_base64"}…]}
//
// A header without a value has null there.
func AppendLog(dst []byte, l pawl.LogRecord) []byte {
	dst = append(dst, `{"partition":`...)
	dst = strconv.AppendInt(dst, int64(l.Partition()), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, l.Offset(), 10)
	dst = append(dst, `,"timestamp":"`...)
	dst = l.Timestamp().UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","null_body":`...)
	dst = strconv.AppendBool(dst, l.NullBody())
	dst = append(dst, `,"headers":[`...)
	for i, h := range l.RawHeaders() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = AppendText(dst, strings.ToValidUTF8(h.Name, "\uFFFD"))
		dst = append(dst, `,"value_base64":`...)
		if h.Value == nil {
			dst = append(dst, "null"...)
		} else {
			dst = appendBase64(dst, h.Value)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// AppendTime appends t as programs get it: in UTC, to the millisecond.
func AppendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
}

const hex = "0123456789abcdef"

// AppendText appends s, which must be valid UTF-8, as a JSON text. Only what must
// be escaped is.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[begin:i]...)
		begin = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[begin:]...)
	return append(dst, '"')
}

// Base64 is the form in which bytes that are no text are written.
func Base64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
