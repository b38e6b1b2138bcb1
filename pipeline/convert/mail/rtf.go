package mail

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// rtfStart is what the dictionary of compressed RTF begins with ([MS-OXRTFCP], 2.1.3.1).
const rtfStart = `{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor ` +
	`MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0` + "\r\n" +
	`\par \pard\plain\f0\fs20\b\i\u\tab\tx`

const (
	rtfHeader     = 16
	rtfCompressed = 0x75465a4c // "LZFu"
	rtfPlain      = 0x414c454d // "MELA"
	rtfWindow     = 4096
)

// unpackRTF unpacks the body of a message that Outlook keeps as compressed RTF ([MS-OXRTFCP]).
func unpackRTF(b []byte) ([]byte, error) {
	if len(b) < rtfHeader {
		return nil, doc.Fail(doc.KindCorrupt, "its body is cut off")
	}
	size, kind := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	b = b[rtfHeader:]
	switch {
	case kind == rtfPlain:
		return b[:min(uint64(size), uint64(len(b)))], nil
	case kind != rtfCompressed:
		return nil, doc.Fail(doc.KindCorrupt, "its body is in no known compression")
	}
	var window [rtfWindow]byte
	at := copy(window[:], rtfStart)
	var out []byte
	put := func(c byte) {
		window[at] = c
		at = (at + 1) % rtfWindow
		out = append(out, c)
	}
	for i := 0; i < len(b); {
		control := b[i]
		i++
		for bit := 0; bit < 8 && i < len(b); bit++ {
			if control>>bit&1 == 0 {
				put(b[i])
				i++
				continue
			}
			if i+2 > len(b) {
				return out, nil
			}
			pair := int(b[i])<<8 | int(b[i+1])
			i += 2
			from := pair >> 4
			if from == at { // the end
				return out, nil
			}
			for k := range pair&0x0f + 2 {
				put(window[(from+k)%rtfWindow])
			}
		}
	}
	return out, nil
}
