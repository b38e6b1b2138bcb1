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
	// be decoded; its value says why. Import stores such a record as it was.
	SealedHeader = Header + "-sealed"
)

// IsEncoded reports whether a message has a [Header] that says how to read its body: it
// is as the store below a codec has it, and not as it was sent.
func IsEncoded(m *pawl.Message) bool {
	value, ok := m.Headers[Header]
	if !ok {
		return false
	}
	_, err := parseRecipe(value)
	return err == nil
}

// refuseReserved returns an error for headers with a name that the codec keeps for
// itself.
func refuseReserved(headers map[string]string) error {
	for name := range headers {
		if name == Header || strings.HasPrefix(name, Header+"-") {
			return pawl.Invalid("headers", "named %s and %s-… are the codec's", Header, Header)
		}
	}
	return nil
}

// The steps of an encoding, as the header names them.
const (
	stepRaw  = "raw" // none
	stepZstd = "zstd"
)

// recipe is what the header says: how the body that is stored came about.
type recipe struct {
	zstd   bool // it was compressed
	length int  // bytes of what comes out
	blob   *ref // where the encoded body is; nil: in the message
}

// String is the header's value.
func (r *recipe) String() string {
	b := make([]byte, 0, 160)
	if r.zstd {
		b = append(b, stepZstd...)
	} else {
		b = append(b, stepRaw...)
	}
	b = strconv.AppendInt(append(b, ";len="...), int64(r.length), 10)
	if r.blob != nil {
		b = hex.AppendEncode(append(b, ";blob=sha256:"...), r.blob.sum[:])
		b = strconv.AppendInt(append(b, ";size="...), int64(r.blob.size), 10)
		b = append(append(b, ";dir="...), r.blob.folder...)
	}
	return string(b)
}

// parseRecipe reads a header's value. What it does not know it does not guess.
func parseRecipe(value string) (*recipe, error) {
	bad := func(why string, args ...any) (*recipe, error) {
		return nil, damaged("header %s: %.200q %s", Header, value, fmt.Sprintf(why, args...))
	}
	step, rest, more := strings.Cut(value, ";")
	r := &recipe{zstd: step == stepZstd, length: -1}
	if !r.zstd && step != stepRaw {
		return bad("has unknown steps; was it written by another version?")
	}
	blob := ref{size: -1}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ";")
		name, v, _ := strings.Cut(part, "=")
		if !r.set(&blob, name, v) {
			return bad("has %.40q, which says nothing; was it written by another version?", part)
		}
	}
	switch {
	case r.length < 0:
		return bad("lacks len=")
	case r.length > pawl.MaxBody:
		return bad("announces more than a message may have")
	case r.blob != nil && (blob.size < 0 || blob.size > pawl.MaxBody || blob.folder == ""):
		return bad("names a file without its size and folder")
	}
	return r, nil
}

// set takes one parameter, and reports whether it makes sense.
func (r *recipe) set(blob *ref, name, v string) (ok bool) {
	switch name {
	case "len":
		r.length, ok = number(v)
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
