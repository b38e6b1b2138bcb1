package charset

import (
	"bytes"
	"encoding/base64"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

// unlisted are encodings that the lists of HTML and IANA lack or refuse: of mails, most of all.
var unlisted = map[string]encoding.Encoding{
	"utf-32le":    utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM),
	"utf-32be":    utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM),
	"iso-2022-kr": whole{fromISO2022KR},
	"hz-gb-2312":  simplifiedchinese.HZGB2312,
	"utf-7":       whole{fromUTF7},
}

const (
	shiftOut, shiftIn = 0x0e, 0x0f
	koreanMark        = "\x1b$)C"
)

// whole is an encoding that is read by a function of all of a text, and not written.
type whole struct{ read func([]byte) string }

func (w whole) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: &wholeReader{whole: w}}
}
func (w whole) NewEncoder() *encoding.Encoder { return encoding.Replacement.NewEncoder() }

type wholeReader struct {
	whole
	out  string
	done bool
}

func (r *wholeReader) Reset() { r.out, r.done = "", false }

func (r *wholeReader) Transform(dst, src []byte, atEOF bool) (n, read int, err error) {
	if !atEOF {
		return 0, 0, transform.ErrShortSrc
	}
	if !r.done {
		r.out, r.done = r.read(src), true
	}
	n = copy(dst, r.out)
	if r.out = r.out[n:]; r.out != "" {
		return n, 0, transform.ErrShortDst
	}
	return n, len(src), nil
}

// fromISO2022KR reads Korean in seven bits: what is between shifts is EUC-KR without the eighth.
func fromISO2022KR(data []byte) string {
	out, high := make([]byte, 0, len(data)), byte(0)
	for _, c := range bytes.ReplaceAll(data, []byte(koreanMark), nil) {
		switch {
		case c == shiftOut:
			high = 0x80
		case c == shiftIn || c == '\n':
			high = 0
		case c > ' ':
			c |= high
		}
		if c != shiftOut && c != shiftIn {
			out = append(out, c)
		}
	}
	return decode(out, korean.EUCKR)
}

// fromUTF7 reads UTF-16 in base64 between + and -.
func fromUTF7(data []byte) string {
	var out strings.Builder
	for rest := string(data); ; {
		plain, coded, found := strings.Cut(rest, "+")
		out.WriteString(plain)
		if !found {
			return out.String()
		}
		n := 0
		for n < len(coded) && (isBase64(coded[n])) {
			n++
		}
		units, err := base64.RawStdEncoding.DecodeString(coded[:n])
		rest = strings.TrimPrefix(coded[n:], "-")
		switch {
		case n == 0 && rest != coded:
			out.WriteByte('+')
		case n == 0 || err != nil:
			out.WriteString("+" + coded[:n])
		default:
			out.WriteString(decode(units[:len(units)&^1], unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)))
		}
	}
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}
