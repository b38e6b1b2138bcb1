package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// toMsgpack turns JSON into msgpack if that is shorter and becomes the same
// bytes again: members in the same order, every number and every string in the
// same spelling. Otherwise it returns nil. So it takes compact JSON only, and
// numbers only as most programs write them.
func toMsgpack(body []byte) []byte {
	if len(body) < 2 || !json.Valid(body) {
		return nil
	}
	counts, compact := countMembers(body)
	if !compact {
		return nil
	}
	out := bytes.NewBuffer(make([]byte, 0, len(body)))
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(out)
	if !writeMsgpack(enc, body, counts) || out.Len() >= len(body) {
		return nil
	}
	if again, err := fromMsgpack(out.Bytes(), len(body)); err != nil || !bytes.Equal(again, body) {
		return nil
	}
	return out.Bytes()
}

// countMembers returns how many values each array and object of valid JSON has,
// in the order of their beginnings: msgpack says so in advance. It gives up at
// white space, which would not come back.
func countMembers(body []byte) (counts []int, compact bool) {
	var open []int
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			i = endOfString(body, i)
		case '{', '[':
			open = append(open, len(counts))
			counts = append(counts, 1)
			if body[i+1] == c+2 { // { and }, [ and ] are two apart
				counts[len(counts)-1] = 0
			}
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			counts[open[len(open)-1]]++
		case ' ', '\t', '\n', '\r':
			return nil, false
		}
	}
	return counts, true
}

// endOfString returns the place of the quote that ends the string at i.
func endOfString(body []byte, i int) int {
	for i++; body[i] != '"'; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}

// writeMsgpack writes valid, compact JSON, token by token.
func writeMsgpack(enc *msgpack.Encoder, body []byte, counts []int) bool {
	var err error
	for i := 0; i < len(body) && err == nil; i++ {
		switch c := body[i]; c {
		case ',', ':', '}', ']':
		case '{':
			err, counts = enc.EncodeMapLen(counts[0]), counts[1:]
		case '[':
			err, counts = enc.EncodeArrayLen(counts[0]), counts[1:]
		case '"':
			end := endOfString(body, i)
			err = writeString(enc, body[i:end+1])
			i = end
		case 't':
			err, i = enc.EncodeBool(true), i+len("true")-1
		case 'f':
			err, i = enc.EncodeBool(false), i+len("false")-1
		case 'n':
			err, i = enc.EncodeNil(), i+len("null")-1
		default:
			end := i
			for end < len(body) && body[end] != ',' && body[end] != '}' && body[end] != ']' {
				end++
			}
			err = writeNumber(enc, string(body[i:end]))
			i = end - 1
		}
	}
	return err == nil
}

func writeString(enc *msgpack.Encoder, quoted []byte) error {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return enc.EncodeString(string(inner))
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return err
	}
	return enc.EncodeString(s)
}

var errSpelling = errors.New("this number would come back spelt otherwise")

// writeNumber writes a number that a reader gets as it is: an integer of 64 bits,
// or a decimal that is the shortest spelling of its float.
func writeNumber(enc *msgpack.Encoder, s string) error {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return enc.EncodeInt(n)
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return errSpelling
		}
		return enc.EncodeUint(n)
	}
	f, err := strconv.ParseFloat(s, 64)
	var room [32]byte
	if err != nil || string(appendFloat(room[:0], f)) != s {
		return errSpelling
	}
	if small := float32(f); float64(small) == f {
		return enc.EncodeFloat32(small)
	}
	return enc.EncodeFloat64(f)
}

// appendFloat spells f like JavaScript and most encoders of JSON.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if n := len(b); format == 'e' && n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b[n-2] = b[n-1] // e-07 is spelt e-7
		b = b[:n-1]
	}
	return b
}
