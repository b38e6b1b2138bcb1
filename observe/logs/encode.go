package logs

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
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
}

// begin writes what every record has.
func (e *encoder) begin(r *slog.Record) {
	if e.asText.on {
		e.text = e.text[:0]
		if !r.Time.IsZero() {
			e.text = append(appendMillis(append(e.text, "time="...), r.Time), ' ')
		}
		e.text = append(append(e.text, "level="...), levelName(r.Level)...)
		e.text = appendText(append(e.text, " message="...), r.Message)
	}
	if e.asJSON.on {
		e.json = append(e.json[:0], '{')
		if !r.Time.IsZero() {
			e.json = append(r.Time.Round(0).AppendFormat(append(e.json, `"time":"`...), time.RFC3339Nano), `",`...)
		}
		e.json = append(append(append(e.json, `"level":"`...), levelName(r.Level)...), `","message":`...)
		e.json = appendJSON(e.json, r.Message)
	}
}

// attr writes an attribute of a group, whose name ends with a dot.
func (e *encoder) attr(group string, a slog.Attr) {
	a.Value = a.Value.Resolve()
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
		*s = fmt.Sprintf("!PANIC: %v", v)
	}
}

// appendMillis appends a time with three digits of a second. The format is the one that package time is fastest with;
// it leaves out zeros at the end, so that there is a fourth digit to cut off.
func appendMillis(b []byte, t time.Time) []byte {
	const fourDigits = len("2006-01-02T15:04:05.0000")
	begin := len(b)
	t = t.Truncate(time.Millisecond).Add(time.Millisecond / 10)
	b = t.AppendFormat(b, time.RFC3339Nano)
	return slices.Delete(b, begin+fourDigits-1, begin+fourDigits)
}

// appendText appends s, in quotes where a reader of key=value pairs needs them.
func appendText(b []byte, s string) []byte {
	quote := s == ""
	for i := 0; i < len(s) && !quote; {
		c := s[i]
		if c < utf8.RuneSelf {
			quote = c <= ' ' || c == '"' || c == '=' || c == 0x7f
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		quote = r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r)
		i += size
	}
	if quote {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

const hex = "0123456789abcdef"

// appendJSON appends s as a string of JSON. What is not UTF-8 becomes U+FFFD.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
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
