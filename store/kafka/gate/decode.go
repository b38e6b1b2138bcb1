package gate

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrForeign: the text is not that of a checkpoint, or it is of another source.
	ErrForeign = errors.New("gate: not a checkpoint of this log")
	// ErrSource is the ErrForeign of a checkpoint of another source.
	ErrSource = fmt.Errorf("%w: it is of another source", ErrForeign)
	// ErrVersion: the text is that of a checkpoint which a newer version wrote.
	ErrVersion = errors.New("gate: checkpoint of an unknown version")
	// ErrDamaged: the text is not as it was written, or not of this base.
	ErrDamaged = errors.New("gate: damaged checkpoint")
)

// Decode reads the text of a checkpoint that was kept beside base, of the log that
// source stands for. The error is one of ErrForeign, ErrVersion and ErrDamaged;
// an empty text is foreign. Any text may be given.
func Decode(base int64, source uint32, text string) (Checkpoint, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	v, data, dot := strings.Cut(rest, ".")
	switch {
	case !ok || !dot || v == "" || len(v) > 3 || strings.Trim(v, "0123456789") != "":
		return Checkpoint{}, fmt.Errorf("%w: it does not begin with %q", ErrForeign, header)
	case v != version:
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrVersion, v)
	case len(text) > MaxText:
		return Checkpoint{}, fmt.Errorf("%w: of %d bytes", ErrDamaged, len(text))
	}
	body, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	sum := len(body) - 4
	if sum < 0 || binary.LittleEndian.Uint32(body[sum:]) != check(base, body[:sum]) {
		return Checkpoint{}, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	r := reader{rest: body[:sum]}
	c := r.checkpoint(base)
	switch {
	case r.bad:
		return Checkpoint{}, fmt.Errorf("%w: impossible content", ErrDamaged)
	case c.Source != source:
		return Checkpoint{}, fmt.Errorf("%w: %08x, not %08x", ErrSource, c.Source, source)
	case c.Text() != text: // there is one text for each; base64 alone would pass over line ends and spare bits
		return Checkpoint{}, fmt.Errorf("%w: not as it is written", ErrDamaged)
	}
	return c, nil
}

// reader takes the parts of a text. After a part that is not there it is bad, and
// gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) checkpoint(base int64) Checkpoint {
	c := Checkpoint{Base: base}
	flags := r.byte()
	if flags&^flagsKnown != 0 {
		r.bad = true
	}
	c.Open = flags&flagOpen != 0
	for i := range 4 {
		c.Source |= uint32(r.byte()) << (8 * i)
	}
	if flags&flagHorizon != 0 {
		v := r.uvarint()
		c.Horizon = base + (int64(v>>1) ^ -int64(v&1))
	}
	if flags&flagCrashes != 0 {
		c.Crashes = r.byte()
	}
	if flags&flagTries != 0 {
		from := base
		for range min(r.byte(), MaxTries) {
			from = int64(uint64(from) + r.uvarint())
			c.Tries = append(c.Tries, Try{from, r.byte()})
		}
	}
	if flags&flagBitmap != 0 {
		c.finished = r.bitmap()
	} else {
		c.finished = r.runs()
	}
	if extent := c.finished.extent(); extent > 0 && base+int64(extent-1) < base {
		r.bad = true
	}
	return c
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) runs() set {
	if len(r.rest) == 0 {
		return nil
	}
	s := make(set, Window/64)
	for at, in := uint64(0), false; len(r.rest) > 0 && !r.bad; in = !in {
		n := r.uvarint()
		if n == 0 || n > Window-at {
			r.bad = true
			break
		}
		if in {
			s.add(at, n)
		}
		at += n
	}
	return s.trim()
}

func (r *reader) bitmap() set {
	if len(r.rest) > maxFinished {
		r.bad = true
		return nil
	}
	s := make(set, Window/64+1)
	for i, b := range r.rest {
		at := uint64(i)*8 + 1
		s[at/64] |= uint64(b) << (at % 64)
		s[at/64+1] |= uint64(b) >> (64 - at%64) // at is odd: the shift is below 64
	}
	if s[Window/64] != 0 {
		r.bad = true
		return nil
	}
	return s.trim()
}
