package gate

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// The text of a checkpoint is "pawl1." and, in base64url without padding:
//
//	flags    1 byte
//	source   4 bytes, little endian
//	horizon  varint, as distance from the base    if flagHorizon
//	crashes  1 byte                               if flagCrashes
//	tries    a count, and for each: uvarint, distance from the one before, the
//	         first from the base; a byte, its count   if flagTries
//	finished runs as uvarints, in turn unfinished and finished, from the base on;
//	         or if flagBitmap a bit for each position behind the base
//	check    4 bytes, little endian: CRC-32C of the base (8 bytes, little endian)
//	         and of all that is above
//
// The base is not in the text: it is kept beside it. Of two ways to write the
// finished ones the shorter is taken, or runs. So equal checkpoints, and only
// they, have equal texts.
const (
	prefix  = "pawl"
	version = "1"
	header  = prefix + version + "."
)

const (
	flagOpen = 1 << iota
	flagBitmap
	flagHorizon
	flagCrashes
	flagTries
	flagsKnown = 1<<iota - 1
)

const (
	maxTry  = binary.MaxVarintLen64 + 1
	maxBody = 1 + 4 + binary.MaxVarintLen64 + 1 + 1 + MaxTries*maxTry + maxFinished + 4
	// maxFinished is a bitmap of the whole window but for the base.
	maxFinished = Window / 8
)

// MaxText is the longest text of a checkpoint, in bytes, whatever is finished. All
// of them are ASCII: a text fits where 4,096 characters do.
const MaxText = len(header) + (maxBody*8+5)/6

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Text is the checkpoint without its base, in letters, digits and "-_.", of at most
// [MaxText] bytes. Checkpoints with equal bases and texts are equal.
func (c Checkpoint) Text() string {
	var room [maxBody]byte
	body := c.appendBody(room[:0])
	body = binary.LittleEndian.AppendUint32(body, check(c.Base, body))
	return header + base64.RawURLEncoding.EncodeToString(body)
}

func (c *Checkpoint) appendBody(b []byte) []byte {
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint32(b, c.Source)
	flags := byte(0)
	if c.Open {
		flags |= flagOpen
	}
	if c.Horizon != 0 {
		flags |= flagHorizon
		b = binary.AppendVarint(b, c.Horizon-c.Base)
	}
	if c.Crashes != 0 {
		flags |= flagCrashes
		b = append(b, c.Crashes)
	}
	if tries := c.tries(); len(tries) > 0 {
		flags |= flagTries
		b = append(b, byte(len(tries)))
		from := c.Base
		for _, t := range tries {
			b = append(binary.AppendUvarint(b, uint64(t.Pos)-uint64(from)), t.Count)
			from = t.Pos
		}
	}
	start := len(b)
	b, ok := c.finished.appendRuns(b)
	if !ok {
		flags |= flagBitmap
		b = c.finished.appendBitmap(b[:start])
	}
	b[0] = flags
	return b
}

// appendRuns gives up when a bitmap is shorter.
func (s set) appendRuns(b []byte) ([]byte, bool) {
	start, extent := len(b), s.extent()
	bitmap := int(extent+6) / 8 // without the base
	for i, in := uint64(0), false; i < extent; in = !in {
		n := s.run(i, in)
		b = binary.AppendUvarint(b, n)
		if len(b)-start > bitmap {
			return b, false
		}
		i += n
	}
	return b, true
}

func (s set) appendBitmap(b []byte) []byte {
	for i := uint64(1); i < s.extent(); i += 8 {
		bits := s[i/64] >> (i % 64)
		if next := i/64 + 1; next < uint64(len(s)) {
			bits |= s[next] << (64 - i%64)
		}
		b = append(b, byte(bits))
	}
	return b
}

func check(base int64, body []byte) uint32 {
	var room [8]byte
	binary.LittleEndian.PutUint64(room[:], uint64(base))
	return crc32.Update(crc32.Checksum(room[:], castagnoli), castagnoli, body)
}

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
