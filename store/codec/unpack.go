package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// This file reads msgpack where it is, without a copy of every string: the
// library's decoder is made for Go values, and took three times as long.

// maxDepth bounds how deep arrays and objects are nested.
const maxDepth = 10_000

// fromMsgpack turns one msgpack value into compact JSON of at most limit bytes.
func fromMsgpack(data []byte, limit int) ([]byte, error) {
	j := jsonWriter{in: data, out: make([]byte, 0, min(limit, 4*len(data))), limit: limit}
	if err := j.write(); err != nil {
		return nil, damaged("msgpack: %w", err)
	}
	if len(j.in) > 0 {
		return nil, damaged("msgpack: %d bytes too many", len(j.in))
	}
	return j.out, nil
}

// jsonWriter writes JSON while it reads msgpack.
type jsonWriter struct {
	in    []byte // what is not read yet
	out   []byte
	limit int
	open  []container
}

// container is an array or object that is being written.
type container struct {
	object bool
	left   uint64 // values; of an object, members
	begun  bool
	value  bool // in an object: the key is written, its value comes next
}

// write writes one value with all that is in it. It keeps its own stack, so that
// hostile nesting does not grow the goroutine's. A false length costs nothing:
// every value takes a byte of the input at least.
func (j *jsonWriter) write() error {
	for {
		if err := j.next(); err != nil {
			return err
		}
		for len(j.open) > 0 {
			c := &j.open[len(j.open)-1]
			if c.left > 0 || c.value {
				break
			}
			if j.out = append(j.out, ']'); c.object {
				j.out[len(j.out)-1] = '}'
			}
			j.open = j.open[:len(j.open)-1]
		}
		if len(j.out) > j.limit {
			return fmt.Errorf("becomes more than %d bytes", j.limit)
		}
		if len(j.open) == 0 {
			return nil
		}
	}
}

// next writes what comes before a value, and its beginning.
func (j *jsonWriter) next() error {
	if len(j.in) == 0 {
		return io.ErrUnexpectedEOF
	}
	if len(j.open) == 0 {
		return j.value()
	}
	c := &j.open[len(j.open)-1]
	if c.value {
		c.value = false
		return j.value()
	}
	if c.begun {
		j.out = append(j.out, ',')
	}
	c.begun = true
	c.left--
	if !c.object {
		return j.value()
	}
	if c.value = true; !msgpcode.IsString(j.in[0]) {
		return fmt.Errorf("code %#x is no key of an object", j.in[0])
	}
	err := j.value()
	j.out = append(j.out, ':')
	return err
}

// value writes one value, or the beginning of a container.
func (j *jsonWriter) value() error {
	code := j.in[0]
	j.in = j.in[1:]
	switch {
	case msgpcode.IsFixedMap(code):
		return j.begin('{', uint64(code&msgpcode.FixedMapMask), nil)
	case code == msgpcode.Map16 || code == msgpcode.Map32:
		n, err := j.uint(2 << (code - msgpcode.Map16))
		return j.begin('{', n, err)
	case msgpcode.IsFixedArray(code):
		return j.begin('[', uint64(code&msgpcode.FixedArrayMask), nil)
	case code == msgpcode.Array16 || code == msgpcode.Array32:
		n, err := j.uint(2 << (code - msgpcode.Array16))
		return j.begin('[', n, err)
	case msgpcode.IsFixedString(code):
		return j.text(uint64(code&msgpcode.FixedStrMask), nil)
	case code == msgpcode.Str8 || code == msgpcode.Str16 || code == msgpcode.Str32:
		n, err := j.uint(1 << (code - msgpcode.Str8))
		return j.text(n, err)
	case code == msgpcode.Nil:
		j.out = append(j.out, "null"...)
	case code == msgpcode.True || code == msgpcode.False:
		j.out = strconv.AppendBool(j.out, code == msgpcode.True)
	default:
		return j.number(code)
	}
	return nil
}

// uint reads a number of that many bytes.
func (j *jsonWriter) uint(size int) (uint64, error) {
	if len(j.in) < size {
		return 0, io.ErrUnexpectedEOF
	}
	var room [8]byte
	copy(room[8-size:], j.in[:size])
	j.in = j.in[size:]
	return binary.BigEndian.Uint64(room[:]), nil
}

func (j *jsonWriter) number(code byte) error {
	switch {
	case msgpcode.IsFixedNum(code):
		j.out = strconv.AppendInt(j.out, int64(int8(code)), 10)
	case code >= msgpcode.Uint8 && code <= msgpcode.Uint64:
		n, err := j.uint(1 << (code - msgpcode.Uint8))
		j.out = strconv.AppendUint(j.out, n, 10)
		return err
	case code >= msgpcode.Int8 && code <= msgpcode.Int64:
		size := 1 << (code - msgpcode.Int8)
		n, err := j.uint(size)
		unused := 64 - 8*size
		j.out = strconv.AppendInt(j.out, int64(n<<unused)>>unused, 10) // with its sign
		return err
	case code == msgpcode.Float:
		n, err := j.uint(4)
		return j.float(float64(math.Float32frombits(uint32(n))), err)
	case code == msgpcode.Double:
		n, err := j.uint(8)
		return j.float(math.Float64frombits(n), err)
	default:
		return fmt.Errorf("code %#x has no counterpart in JSON", code)
	}
	return nil
}

func (j *jsonWriter) float(f float64, err error) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%v is not a JSON number", f)
	}
	j.out = appendFloat(j.out, f)
	return err
}

func (j *jsonWriter) text(n uint64, err error) error {
	if err != nil || n > uint64(len(j.in)) {
		return io.ErrUnexpectedEOF
	}
	s := j.in[:n]
	if j.in = j.in[n:]; !utf8.Valid(s) {
		return errors.New("a string is not UTF-8")
	}
	j.out = appendString(j.out, s)
	return nil
}

func (j *jsonWriter) begin(c byte, n uint64, err error) error {
	if err != nil {
		return err
	}
	if len(j.open) == maxDepth {
		return fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	j.out = append(j.out, c)
	j.open = append(j.open, container{object: c == '{', left: n})
	return nil
}

// appendString quotes s and escapes no more than JSON asks for.
func appendString(b, s []byte) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(b, s[start:]...), '"')
}
