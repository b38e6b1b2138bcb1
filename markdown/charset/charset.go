// Package charset makes UTF-8 of text in any encoding that the web knows.
package charset

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/unicode/norm"
)

// Decode returns a text in UTF-8. A byte order mark says what it is in; else label does, such as that of a
// Content-Type; else what an HTML or XML text says of itself; else it is guessed.
func Decode(data []byte, label string) string {
	for _, mark := range []struct{ bom, name string }{
		{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe\x00\x00", "utf-32le"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"},
	} {
		if rest, ok := bytes.CutPrefix(data, []byte(mark.bom)); ok {
			return As(rest, mark.name)
		}
	}
	if label == "" {
		label = declared(data)
	}
	valid := utf8.Valid(data)
	if valid && (label == "" || strings.EqualFold(label, "utf-8")) && !bytes.ContainsRune(head(data), 0) {
		return string(data)
	}
	if e, _ := htmlindex.Get(label); e != nil && !(valid && isUnicode(e)) {
		return decode(data, e)
	}
	return decode(data, guess(data, valid))
}

// As returns a text in UTF-8 that is in the encoding of a name. If the name is unknown, the
// encoding is guessed.
func As(data []byte, name string) string {
	if name == "utf-32le" {
		return decode(data, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM))
	}
	if e, _ := htmlindex.Get(name); e != nil {
		return decode(data, e)
	}
	return decode(data, guess(data, utf8.Valid(data)))
}

// Codepage returns a text that is in a code page of Windows.
func Codepage(data []byte, page int) string {
	names := map[int]string{932: "shift_jis", 936: "gbk", 949: "euc-kr", 950: "big5", 65001: "utf-8", 1200: "utf-16le",
		10000: "macintosh", 28591: "iso-8859-1"}
	return As(data, cmp.Or(names[page], "windows-"+strconv.Itoa(page)))
}

// Composed makes one character of a letter and its accents, where there is one.
func Composed(text string) string { return norm.NFC.String(text) }

func decode(data []byte, e encoding.Encoding) string {
	out, err := e.NewDecoder().Bytes(data)
	if err != nil { // decoders replace what they cannot read; they do not fail
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return string(out)
}

// isUnicode tells UTF-16 from others: a text that declares it within itself, in ASCII, lies.
func isUnicode(e encoding.Encoding) bool {
	name, _ := htmlindex.Name(e)
	return strings.HasPrefix(name, "utf-")
}

const sample = 64 << 10

func head(data []byte) []byte { return data[:min(len(data), sample)] }

var declarations = regexp.MustCompile(
	`(?i)<(?:\?xml[^>]{0,200}?encoding|meta[^>]{0,300}?charset)\s*=\s*["']?\s*([a-z0-9_:.-]+)`)

func declared(data []byte) string {
	if m := declarations.FindSubmatch(data[:min(len(data), 4096)]); m != nil {
		return string(m[1])
	}
	return ""
}

// guess finds the encoding of a text that does not say it.
func guess(data []byte, valid bool) encoding.Encoding {
	data = head(data)
	even, odd := 0, 0
	for i, c := range data {
		if c == 0 && i%2 == 0 {
			even++
		} else if c == 0 {
			odd++
		}
	}
	switch {
	case odd > len(data)/8 && odd > 4*even:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case even > len(data)/8 && even > 4*odd:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case valid:
		return unicode.UTF8
	}
	best, score := encoding.Encoding(charmap.Windows1252), western(data)
	for _, name := range []string{"gb18030", "shift_jis", "big5", "euc-kr", "euc-jp", "windows-1251"} {
		e, _ := htmlindex.Get(name)
		if s := plausible(decode(data, e), name); s > score {
			best, score = e, s
		}
	}
	return best
}

// western tells how likely a text is in a Latin alphabet: how many of its letters beyond ASCII stand alone between
// letters of ASCII, or at the end of a word.
func western(data []byte) float64 {
	alone, all := 0, 0
	for i, c := range data {
		if c < utf8.RuneSelf {
			continue
		}
		all++
		if (i == 0 || data[i-1] < utf8.RuneSelf) && (i+1 == len(data) || data[i+1] < utf8.RuneSelf) && c >= 0x80 {
			alone++
		}
	}
	return float64(alone)/float64(max(all, 1)) + 0.05
}

// plausible tells how likely a decoded text is one: the share of the characters that its language uses most.
func plausible(text, name string) float64 {
	good, all := 0.0, 0
	for _, r := range text {
		if r < utf8.RuneSelf {
			continue
		}
		all++
		switch {
		case r == utf8.RuneError || 0xe000 <= r && r < 0xf900 || 0xff61 <= r && r <= 0xff9f:
			good -= 3
		case 0x3040 <= r && r < 0x3100: // kana
			if name == "shift_jis" || name == "euc-jp" {
				good += 1.2
			}
		case 0xac00 <= r && r < 0xd7b0: // hangul
			if name == "euc-kr" {
				good += 1
			}
		case 0x410 <= r && r < 0x450 && name == "windows-1251":
			good += 0.9
		case 0x3000 <= r && r < 0x3040 || 0xff00 <= r && r < 0xff61: // punctuation
			good += 0.8
		case 0x4e00 <= r && r < 0xa000:
			good += common(r, name)
		}
	}
	return good / float64(max(all, 1))
}

// common tells whether a character is in the first level of an encoding, where the frequent ones are.
func common(r rune, name string) float64 {
	e, _ := htmlindex.Get(name)
	b, err := e.NewEncoder().Bytes([]byte(string(r)))
	if err != nil || len(b) != 2 {
		return 0.1
	}
	first := map[string][2]byte{"gb18030": {0xb0, 0xd7}, "shift_jis": {0x88, 0x97}, "big5": {0xa4, 0xc6},
		"euc-jp": {0xb0, 0xcf}}[name]
	if first[0] <= b[0] && b[0] <= first[1] && (b[1] >= 0xa1 || name == "big5" || name == "shift_jis") {
		return 0.9
	}
	return 0.1
}
