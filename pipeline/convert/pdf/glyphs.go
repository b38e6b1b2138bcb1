package pdf

import (
	"bytes"
	"compress/zlib"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// maxUnpacked bounds the compressed objects that are read for the names of glyphs.
const maxUnpacked = 32 << 20

// glyphs are the texts of glyphs whose names PDFium does not know, such as T_h, by the font and the code of each.
type glyphs map[string]map[rune]string

var (
	objectStart = regexp.MustCompile(`(\d{1,9})\s+\d{1,5}\s*$`)
	packed      = regexp.MustCompile(`/Type\s*/ObjStm\b`)
	packedFirst = regexp.MustCompile(`/First\s+(\d{1,9})`)
	baseFont    = regexp.MustCompile(`/BaseFont\s*/([^\s/<>\[\]()]+)`)
	encodedBy   = regexp.MustCompile(`/Encoding\s+(\d{1,9})\s`)
	differences = regexp.MustCompile(`/Differences\s*\[([^\]]*)\]`)
	codeOrName  = regexp.MustCompile(`\d+|/[^\s/]+`)
)

// glyphsOf finds the names of glyphs in the encodings of a file.
func glyphsOf(data []byte) glyphs {
	objects, all := map[string][]byte{}, glyphs{}
	unpacked := int64(0)
	keep := func(number string, object []byte) {
		if bytes.Contains(object, []byte("/BaseFont")) || bytes.Contains(object, []byte("/Differences")) {
			objects[number] = object
		}
	}
	for rest := data; ; {
		before, after, found := bytes.Cut(rest, []byte("obj"))
		if !found {
			break
		}
		rest = after
		number := objectStart.FindSubmatch(before[max(len(before)-24, 0):])
		if number == nil {
			continue
		}
		object, _, _ := bytes.Cut(after[:min(len(after), 1<<20)], []byte("endobj"))
		object, stream, _ := bytes.Cut(object, []byte("stream"))
		if !packed.Match(object) {
			keep(string(number[1]), object)
		} else if z, err := zlib.NewReader(bytes.NewReader(bytes.TrimLeft(stream, "\r\n"))); err == nil {
			text, _ := io.ReadAll(io.LimitReader(z, maxUnpacked-unpacked)) // what there is of a damaged one
			unpacked += int64(len(text))
			unpack(object, text, keep)
		}
	}
	for _, object := range objects {
		font, encoding := baseFont.FindSubmatch(object), object
		if font == nil {
			continue
		}
		if of := encodedBy.FindSubmatch(object); of != nil {
			encoding = objects[string(of[1])]
		}
		if codes := named(encoding); len(codes) > 0 {
			all[string(font[1])] = codes
		}
	}
	return all
}

// unpack yields the objects of a stream, whose numbers and places are at its beginning.
func unpack(object, text []byte, yield func(number string, object []byte)) {
	first := 0
	if m := packedFirst.FindSubmatch(object); m != nil {
		first, _ = strconv.Atoi(string(m[1]))
	}
	if first > len(text) {
		return
	}
	index := bytes.Fields(text[:first])
	for i := 0; i+1 < len(index); i += 2 {
		from, _ := strconv.Atoi(string(index[i+1]))
		end := len(text) - first
		if i+3 < len(index) {
			end, _ = strconv.Atoi(string(index[i+3]))
		}
		if 0 <= from && from < end && first+end <= len(text) {
			yield(string(index[i]), text[first+from:first+end])
		}
	}
}

// named are the codes of an encoding whose glyphs have names that say more than one character.
func named(encoding []byte) map[rune]string {
	list := differences.FindSubmatch(encoding)
	if list == nil {
		return nil
	}
	codes, code := map[rune]string{}, 0
	for _, token := range codeOrName.FindAll(list[1], 1<<16) {
		name, isName := strings.CutPrefix(string(token), "/")
		if !isName {
			code, _ = strconv.Atoi(name)
			continue
		}
		if text := spelled(name); len(text) > 1 {
			codes[rune(code)] = text
		}
		code++
	}
	return codes
}

// letters are names in ligatures besides those of one letter.
var letters = map[string]string{"longs": "ſ", "germandbls": "ß", "dotlessi": "ı", "adieresis": "ä", "odieresis": "ö",
	"udieresis": "ü", "fi": "fi", "fl": "fl", "ff": "ff", "ffi": "ffi", "ffl": "ffl", "space": " ", "hyphen": "-",
	"period": ".", "comma": ",", "quoteright": "’"}

// spelled is the text of a glyph by the rules of the Adobe Glyph List: what follows a dot is its variant, and an
// underscore is between the names of characters. A name that it does not know is empty.
func spelled(name string) string {
	name, _, _ = strings.Cut(name, ".")
	var text strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		digits, uni := strings.CutPrefix(part, "uni")
		number, err := strconv.ParseUint(strings.TrimPrefix(part, "u"), 16, 32)
		switch {
		case len(part) == 1:
			text.WriteString(part)
		case letters[part] != "":
			text.WriteString(letters[part])
		case uni && len(digits) > 0 && len(digits)%4 == 0:
			for ; digits != ""; digits = digits[4:] {
				number, err := strconv.ParseUint(digits[:4], 16, 32)
				if err != nil {
					return ""
				}
				text.WriteRune(rune(number))
			}
		case err == nil && len(part) >= 5 && len(part) <= 7 && part[0] == 'u':
			text.WriteRune(rune(number))
		default:
			return ""
		}
	}
	return text.String()
}
