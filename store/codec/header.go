package codec

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const (
	// Header is the name of the header that says how to read a body back.
	Header = "pawl-codec"
	// SealedHeader is on a record that is shown as it is stored, because it cannot
	// be decoded; its value says why. Bury stores such a record as it was.
	SealedHeader = Header + "-sealed"
)

// IsEncoded tells whether a message has a [Header] that says how to read its body: it
// is as the store below a codec has it, and not as it was sent.
func IsEncoded(m *pawl.Message) bool {
	value, ok := m.Headers[Header]
	if !ok {
		return false
	}
	_, err := parseRecipe(value)
	return err == nil
}

// reserved tells the names that the codec keeps for itself.
func reserved(name string) bool { return name == Header || strings.HasPrefix(name, Header+"-") }

// The steps of an encoding, as the header names them.
const (
	stepRaw     = "raw" // none
	stepMsgpack = "msgpack"
	stepLZ4     = "lz4"
	stepZstd    = "zstd"
)

// Bounds of what is decoded.
const (
	maxFold    = 256 << 10 // bytes of folded headers, each of their bytes escaped
	maxContent = pawl.MaxBody + maxFold
)

// recipe is what the header says: how the body that is stored came about.
type recipe struct {
	msgpack  bool   // JSON was turned into msgpack, first
	compress string // then that was compressed: [stepLZ4], [stepZstd] or not at all
	length   int    // bytes of what comes out, folded headers included
	middle   int    // bytes between the two steps, if there are two
	fold     int    // of which so many at the beginning are headers
	blob     *ref   // where the encoded body is; nil: in the message
}

// String is the header's value.
func (r *recipe) String() string {
	b := make([]byte, 0, 160)
	switch {
	case r.msgpack && r.compress != "":
		b = append(append(b, stepMsgpack+","...), r.compress...)
	case r.msgpack:
		b = append(b, stepMsgpack...)
	case r.compress != "":
		b = append(b, r.compress...)
	default:
		b = append(b, stepRaw...)
	}
	b = strconv.AppendInt(append(b, ";len="...), int64(r.length), 10)
	if r.twice() {
		b = strconv.AppendInt(append(b, ";mid="...), int64(r.middle), 10)
	}
	if r.fold > 0 {
		b = strconv.AppendInt(append(b, ";fold="...), int64(r.fold), 10)
	}
	if r.blob != nil {
		b = hex.AppendEncode(append(b, ";blob=sha256:"...), r.blob.sum[:])
		b = strconv.AppendInt(append(b, ";size="...), int64(r.blob.size), 10)
		b = append(append(b, ";dir="...), r.blob.folder...)
	}
	return string(b)
}

// twice tells whether the body was first turned into msgpack and then compressed.
func (r *recipe) twice() bool { return r.msgpack && r.compress != "" }

// parseRecipe reads a header's value. What it does not know it does not guess.
func parseRecipe(value string) (*recipe, error) {
	bad := func(why string, args ...any) (*recipe, error) {
		return nil, damaged("header %s: %.200q %s", Header, value, fmt.Sprintf(why, args...))
	}
	steps, rest, more := strings.Cut(value, ";")
	r := &recipe{length: -1, middle: -1}
	if !r.setSteps(steps) {
		return bad("has unknown steps; was it written by a newer version?")
	}
	blob := ref{size: -1}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ";")
		name, v, _ := strings.Cut(part, "=")
		if !r.set(&blob, name, v) {
			return bad("has %.40q, which says nothing; was it written by a newer version?", part)
		}
	}
	switch {
	case r.length < 0:
		return bad("lacks len=")
	case r.twice() && (r.middle < 0 || r.middle > maxContent):
		return bad("lacks mid=, or announces more than a message may have")
	case r.fold > r.length || r.fold > maxFold || r.length-r.fold > pawl.MaxBody:
		return bad("announces more than a message may have")
	case r.blob != nil && (blob.size < 0 || blob.size > maxContent || blob.folder == ""):
		return bad("names a file without its size and folder")
	}
	return r, nil
}

func (r *recipe) setSteps(s string) bool {
	if s == stepRaw {
		return true
	}
	if s, r.msgpack = strings.CutPrefix(s, stepMsgpack); r.msgpack {
		if s == "" {
			return true
		}
		var more bool
		if s, more = strings.CutPrefix(s, ","); !more {
			return false
		}
	}
	r.compress = s
	return s == stepLZ4 || s == stepZstd
}

// set takes one parameter, and tells whether it makes sense.
func (r *recipe) set(blob *ref, name, v string) (ok bool) {
	switch name {
	case "len":
		r.length, ok = number(v)
	case "mid":
		r.middle, ok = number(v)
	case "fold":
		r.fold, ok = number(v)
	case "size":
		blob.size, ok = number(v)
	case "dir":
		blob.folder, ok = v, true
	case "blob":
		r.blob = blob
		ok = blob.setSum(v)
	}
	return ok
}

func number(v string) (int, bool) {
	n, err := strconv.ParseInt(v, 10, 32)
	return int(n), err == nil && n >= 0
}

// damaged is the error of what no repetition makes readable.
func damaged(why string, args ...any) error {
	return &store.Error{Op: "decode", Code: store.ErrCorrupt, Err: fmt.Errorf(why, args...)}
}

// isDamaged tells what cannot be decoded from what cannot be decoded now.
func isDamaged(err error) bool { return errors.Is(err, store.ErrCorrupt) }
