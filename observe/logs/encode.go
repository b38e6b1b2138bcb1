package logs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/observe"
)

// Seq is the name of the number of a record.
const Seq = "seq"

// Fields are the names that Include may have: the fixed names of log attributes. Every record has the first three.
var Fields = []string{
	observe.Time, observe.Level, observe.Message, observe.Module, observe.EventType, observe.Phase, observe.ErrorKind,
	observe.TraceID, observe.TaskID, observe.ModuleID, observe.RequestID, observe.QueueTopic, observe.PolicyAction,
	observe.PolicyReason, observe.PolicyDegrade, observe.RetryCount, observe.RetryMax, observe.NodeID, Seq,
}

// form is what a form of a line has.
type form struct{ on, seq, node bool }

// encoder writes a record in the forms that sinks ask for. Groups are dotted keys, as in policy.action.
type encoder struct {
	text, json     []byte
	asText, asJSON form
	left           map[string]bool // fixed names that are left out
	clock          clock
}

// begin writes what every record has.
func (e *encoder) begin(r *slog.Record) {
	if e.asText.on {
		e.text = e.text[:0]
		if !r.Time.IsZero() {
			e.text = append(e.clock.append(append(e.text, "time="...), r.Time, millis), ' ')
		}
		e.text = append(append(e.text, "level="...), levelName(r.Level)...)
		e.text = appendText(append(e.text, " message="...), r.Message)
	}
	if e.asJSON.on {
		e.json = append(e.json[:0], '{')
		if !r.Time.IsZero() {
			e.json = append(e.clock.append(append(e.json, `"time":"`...), r.Time, nanos), `",`...)
		}
		e.json = append(append(append(e.json, `"level":"`...), levelName(r.Level)...), `","message":`...)
		e.json = appendJSON(e.json, r.Message)
	}
}

// attr writes an attribute of a group, whose name ends with a dot.
func (e *encoder) attr(group string, a slog.Attr) {
	if a.Value.Kind() == slog.KindLogValuer {
		a.Value = a.Value.Resolve()
	}
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range a.Value.Group() {
			e.attr(group, member)
		}
		return
	}
	if a.Key == "" && a.Value.Any() == nil || group == "" && e.left[a.Key] {
		return
	}
	node := group == "" && a.Key == observe.NodeID
	if e.asText.on && !(node && e.asText.node) {
		e.text = append(e.text, ' ')
		if group != "" {
			e.text = appendText(e.text, group+a.Key)
		} else {
			e.text = appendText(e.text, a.Key)
		}
		e.text = appendTextValue(append(e.text, '='), a.Value)
	}
	if e.asJSON.on && !(node && e.asJSON.node) {
		e.json = append(e.json, ',')
		if group != "" {
			e.json = appendJSON(e.json, group+a.Key)
		} else {
			e.json = appendJSON(e.json, a.Key)
		}
		e.json = appendJSONValue(append(e.json, ':'), a.Value)
	}
}

func appendTextValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendText(b, v.String())
	case slog.KindTime:
		return appendMillis(b, v.Time())
	case slog.KindAny:
		return appendText(b, textOf(v.Any()))
	default:
		return appendPlain(b, v)
	}
}

func appendJSONValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendJSON(b, v.String())
	case slog.KindTime:
		return append(v.Time().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(v.Duration()), 10)
	case slog.KindFloat64:
		if f := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(append(append(b, '"'), v.String()...), '"')
		}
		return appendPlain(b, v)
	case slog.KindAny:
		return append(b, jsonOf(v.Any())...)
	default:
		return appendPlain(b, v)
	}
}

// appendPlain appends a value that needs no quotes.
func appendPlain(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindFloat64:
		return strconv.AppendFloat(b, v.Float64(), 'g', -1, 64)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindDuration:
		return append(b, v.Duration().String()...)
	default:
		return append(b, v.String()...)
	}
}

// textOf is a value of any type for people. A value that panics says so itself.
func textOf(v any) (s string) {
	defer panicked(&s)
	switch v := v.(type) {
	case error:
		return v.Error()
	case encoding.TextMarshaler:
		if b, err := v.MarshalText(); err == nil {
			return string(b)
		}
	case []byte:
		return string(v)
	}
	return fmt.Sprintf("%+v", v)
}

// jsonOf is a value of any type as JSON.
func jsonOf(v any) (s string) {
	defer func() {
		if s == "" || !json.Valid([]byte(s)) {
			s = string(appendJSON(nil, s))
		}
	}()
	defer panicked(&s)
	_, marshals := v.(json.Marshaler)
	if err, ok := v.(error); ok && !marshals {
		return string(appendJSON(nil, err.Error()))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(appendJSON(nil, "!ERROR: "+err.Error()))
	}
	return string(b)
}

func panicked(s *string) {
	if v := recover(); v != nil {
		defer func() {
			if recover() != nil { // package fmt passes on a panic within a panic
				*s = fmt.Sprintf("!PANIC: of a %T", v)
			}
		}()
		*s = fmt.Sprintf("!PANIC: %v", v)
	}
}

// appendMillis appends a time with three digits of a second.
func appendMillis(b []byte, t time.Time) []byte { return new(clock).append(b, t, millis) }

// How many digits of a second a time has: three, or nine without zeros at the end.
const (
	millis = time.Millisecond
	nanos  = time.Nanosecond
)

// clock formats times. Most records are of the same second as the one before, whose form it keeps.
type clock struct {
	second     int64
	in         *time.Location
	date, zone []byte // the form of the second, and what follows the fraction
}

// append appends a time as RFC 3339 has it.
func (c *clock) append(b []byte, t time.Time, unit time.Duration) []byte {
	if second, in := t.Unix(), t.Location(); second != c.second || in != c.in || c.zone == nil {
		c.second, c.in = second, in
		c.date = t.AppendFormat(c.date[:0], "2006-01-02T15:04:05")
		c.zone = t.AppendFormat(c.zone[:0], "Z07:00")
	}
	fraction := [...]byte{0: '.', 9: 0}
	for n, i := t.Nanosecond(), len(fraction)-1; i > 0; n, i = n/10, i-1 {
		fraction[i] = byte('0' + n%10)
	}
	used := fraction[:]
	if unit == millis {
		used = used[:len(".000")]
	} else {
		used = bytes.TrimRight(used, ".0")
	}
	return append(append(append(b, c.date...), used...), c.zone...)
}

// What bytes of a text ask for.
const (
	spaced    = 1 << iota // quotes, in text
	escaped               // and escapes
	inJSON                // escapes in JSON
	manyBytes             // a look at the character
)

var kinds = func() (k [256]byte) {
	for c := range k {
		switch {
		case c >= utf8.RuneSelf:
			k[c] = manyBytes
		case c < ' ' || c == '"':
			k[c] = spaced | escaped | inJSON
		case c == 0x7f:
			k[c] = spaced | escaped
		case c == '\\':
			k[c] = escaped | inJSON
		case c == ' ' || c == '=':
			k[c] = spaced
		}
	}
	return k
}()

// kindOf is all that the bytes of s ask for.
func kindOf(s string) (all byte) {
	for i := range len(s) {
		all |= kinds[s[i]]
	}
	return all
}

// appendText appends s, in quotes where a reader of key=value pairs needs them.
func appendText(b []byte, s string) []byte {
	kind := kindOf(s)
	if kind&manyBytes != 0 {
		for _, r := range s {
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				kind |= spaced | escaped
			}
		}
	}
	switch {
	case kind&spaced == 0 && s != "":
		return append(b, s...)
	case kind&escaped == 0:
		return append(append(append(b, '"'), s...), '"')
	default:
		return strconv.AppendQuote(b, s)
	}
}

const hex = "0123456789abcdef"

// appendJSON appends s as a string of JSON. What is not UTF-8 becomes U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	if kindOf(s)&(inJSON|manyBytes) == 0 {
		return append(append(b, s...), '"')
	}
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if kinds[c]&(inJSON|manyBytes) == 0 {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[from:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(append(b, s[from:i]...), "\uFFFD"...)
			from = i + 1
		}
		i += size
	}
	return append(append(b, s[from:]...), '"')
}
