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
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/unicode/norm"
)

// Found says what encoding a text is in, and how that is known.
type Found struct {
	Name    string
	Guessed bool
	Sure    bool // that no other encoding is nearly as likely
}

// Decode returns a text in UTF-8: see Read.
func Decode(data []byte, label string) string {
	text, _ := Read(data, label)
	return text
}

// Read returns a text in UTF-8, and the encoding that it was in. A byte order mark says that; else label does, such as
// that of a Content-Type; else what an HTML or XML text says of itself: each if the text can be read so. Else it is
// guessed by the letters that languages use. Many characters of valid UTF-8 are UTF-8, whatever else is said.
func Read(data []byte, label string) (string, Found) {
	for _, mark := range []struct{ bom, name string }{
		{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe\x00\x00", "utf-32le"},
		{"\x00\x00\xfe\xff", "utf-32be"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"},
	} {
		if rest, ok := bytes.CutPrefix(data, []byte(mark.bom)); ok {
			return As(rest, mark.name), Found{Name: mark.name, Sure: true}
		}
	}
	valid := utf8.Valid(data)
	if valid && !bytes.ContainsRune(head(data), 0) && multibyte(data) >= many {
		return string(data), Found{Name: "utf-8", Sure: true}
	}
	for _, label := range []string{label, declared(data)} {
		e := Named(label)
		switch {
		case e == nil:
			continue
		case valid && isUnicode(e) && !bytes.ContainsRune(head(data), 0):
			return string(data), Found{Name: "utf-8", Sure: true}
		}
		if text := decode(data, e); strings.Count(text, "\uFFFD")*100 <= len(text) {
			return text, Found{Name: nameOf(e, label), Sure: true}
		}
	}
	name, e, sure := guess(data, valid)
	found := Found{Name: name, Guessed: name != "utf-8", Sure: sure}
	if name == "utf-8" && valid {
		return string(data), found
	}
	return decode(data, e), found
}

// many characters beyond ASCII in valid UTF-8 are not there by chance.
const many = 4

// multibyte counts the characters beyond ASCII, up to many.
func multibyte(data []byte) (n int) {
	for i := 0; i < len(data) && n < many; i++ {
		if data[i] >= 0xc0 {
			n++
		}
	}
	return n
}

// Named is an encoding by its name in HTML, or else by that which IANA knows; nil if there is none.
func Named(name string) encoding.Encoding {
	if e := unlisted[strings.ToLower(strings.TrimSpace(name))]; e != nil {
		return e
	}
	if e, _ := htmlindex.Get(name); e != nil {
		return e
	}
	e, _ := ianaindex.IANA.Encoding(name)
	return e
}

// As returns a text in UTF-8 that is in the encoding of a name. If the name is unknown, the
// encoding is guessed.
func As(data []byte, name string) string {
	e := Named(name)
	if e == nil {
		_, e, _ = guess(data, utf8.Valid(data))
	}
	return decode(data, e)
}

// Codepage returns a text that is in a code page of Windows.
func Codepage(data []byte, page int) string {
	names := map[int]string{932: "shift_jis", 936: "gbk", 949: "euc-kr", 950: "big5", 65001: "utf-8", 1200: "utf-16le",
		10000: "macintosh", 28591: "iso-8859-1"}
	name := cmp.Or(names[page], "windows-"+strconv.Itoa(page))
	if Named(name) == nil {
		name = "ibm" + strconv.Itoa(page)
	}
	return As(data, name)
}

// Composed makes one character of a letter and its accents, where there is one.
func Composed(text string) string { return norm.NFC.String(text) }

func decode(data []byte, e encoding.Encoding) string {
	out, err := e.NewDecoder().Bytes(data)
	if err != nil { // decoders replace what they cannot read; they do not fail
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	if e == charmap.Windows1258 { // it has the accents of Vietnamese apart
		return Composed(string(out))
	}
	return string(out)
}

// nameOf is the name of an encoding that browsers use, or else the one that it was asked for by.
func nameOf(e encoding.Encoding, label string) string {
	if name, err := htmlindex.Name(e); err == nil {
		return name
	}
	return strings.ToLower(label)
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
