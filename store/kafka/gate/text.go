package gate

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
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
