package convert

import (
	"encoding/binary"
	"path"
	"strings"
	"unicode/utf16"
)

// Words of the format of compound files.
const (
	sectorSize, smallSize = 512, 64
	noEntry               = 0xFFFFFFFF // where there is no other entry of a directory
	chainEnd              = 0xFFFFFFFE
	tableSector           = 0xFFFFFFFD
	folderEntry           = 1
	fileEntry             = 2
	rootEntry             = 5
)

// compoundEntry is a line of the directory of a compound file.
type compoundEntry struct {
	name                      string
	kind                      byte
	right, child, start, size uint32
}

// compoundFile is one that is being made. All of its streams are in the stream of the small ones.
type compoundFile struct {
	entries []compoundEntry
	last    map[int]int // entry of a folder
	content []byte
	chains  []uint32 // of the small sectors
}

// compound makes a compound file, which Outlook keeps a message in, of streams: pairs of path and content.
func compound(streams ...[2]string) string {
	f := &compoundFile{
		entries: []compoundEntry{{"Root Entry", rootEntry, noEntry, noEntry, 0, 0}}, last: map[int]int{},
	}
	folders := map[string]int{"": 0}
	for _, s := range streams {
		dir, name := path.Split(s[0])
		if _, ok := folders[dir]; !ok {
			folders[dir] = len(f.entries)
			f.add(0, compoundEntry{strings.TrimSuffix(dir, "/"), folderEntry, noEntry, noEntry, 0, 0})
		}
		f.add(folders[dir], compoundEntry{name, fileEntry, noEntry, noEntry, uint32(len(f.chains)), uint32(len(s[1]))})
		f.content = padded(append(f.content, s[1]...), smallSize)
		for len(f.chains) < len(f.content)/smallSize {
			f.chains = append(f.chains, uint32(len(f.chains)+1))
		}
		f.chains[len(f.chains)-1] = chainEnd
	}
	return f.encode()
}

func (f *compoundFile) add(folder int, e compoundEntry) {
	n := len(f.entries)
	if before, ok := f.last[folder]; ok {
		f.entries[before].right = uint32(n)
	} else {
		f.entries[folder].child = uint32(n)
	}
	f.last[folder] = n
	f.entries = append(f.entries, e)
}

// encode writes the header, the table of sectors, the directory, the table of small sectors, and what they hold.
func (f *compoundFile) encode() string {
	parts := [][]byte{nil, padded(words(f.chains...), sectorSize), padded(f.content, sectorSize)}
	parts[0] = make([]byte, (len(f.entries)+3)/4*sectorSize)
	chain, first := []uint32{tableSector}, [3]uint32{}
	for i, p := range parts {
		first[i] = uint32(len(chain))
		for range len(p) / sectorSize {
			chain = append(chain, uint32(len(chain)+1))
		}
		chain[len(chain)-1] = chainEnd
	}
	f.entries[0].start, f.entries[0].size = first[2], uint32(len(f.content))
	for i, e := range f.entries {
		at := parts[0][128*i:]
		copy(at, utf16le(e.name))
		at[64], at[66], at[67] = byte(2*len(e.name)+2), e.kind, 1
		copy(at[68:], words(noEntry, e.right, e.child))
		copy(at[116:], words(e.start, e.size))
	}
	out := append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 16)...)
	out = append(out, "\x3e\x00\x03\x00\xfe\xff\x09\x00\x06\x00\x00\x00\x00\x00\x00\x00"...)
	out = append(out, words(0, 1, first[0], 0, 4096, first[1], uint32(len(parts[1])/sectorSize), chainEnd, 0, 0)...)
	for len(out) < sectorSize {
		out = append(out, 0xff)
	}
	out = append(out, padded(words(chain...), sectorSize)...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return string(out)
}

func words(list ...uint32) []byte {
	var b []byte
	for _, w := range list {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func padded(b []byte, to int) []byte { return append(b, make([]byte, (to-len(b)%to)%to)...) }

func utf16le(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}
