package wire

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deeply the values of a line are nested.
const maxDepth = 1000

// Error says what is wrong with a line, and where.
type Error struct {
	// Column is the place in bytes, from 1; 0 where it is about the whole line.
	Column int
	Why    string
}

func (e *Error) Error() string {
	if e.Column == 0 {
		return e.Why
	}
	return "column " + strconv.Itoa(e.Column) + ": " + e.Why
}

// scanner reads JSON (RFC 8259) from a line. The first error sticks, and ends
// every loop, because nothing follows it any more.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   *Error
	// strict is for the HTTP API: a body is a text, and unique an object.
	strict bool
}

func (s *scanner) fail(at int, why string, args ...any) {
	if s.err == nil {
		s.err = &Error{Column: at + 1, Why: fmt.Sprintf(why, args...)}
	}
	s.pos = len(s.data)
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(want byte, after string) bool {
	if s.peek() != want || s.pos >= len(s.data) {
		s.unexpected("%q "+after, want)
		return false
	}
	s.pos++
	return true
}

func (s *scanner) unexpected(want string, args ...any) {
	found := "the end of the line"
	if s.pos < len(s.data) {
		r, _ := utf8.DecodeRune(s.data[s.pos:])
		found = strconv.QuoteRune(r)
	}
	s.fail(s.pos, "expected "+want+", found %s", append(args, found)...)
}

// end fails if anything but white space is left.
func (s *scanner) end() {
	if s.peek(); s.err == nil && s.pos < len(s.data) {
		s.fail(s.pos, "something follows the object; one line holds one object")
	}
}

// fields reads an object and calls field for each name, standing before its
// value, with the place of the name.
func (s *scanner) fields(field func(name []byte, at int)) {
	if !s.take('{', "to begin an object") {
		return
	}
	if s.peek() == '}' {
		s.pos++
		return
	}
	for {
		s.peek()
		at := s.pos
		if at >= len(s.data) || s.data[at] != '"' {
			s.unexpected("a field name in double quotes")
			return
		}
		name := s.text()
		if !s.take(':', "after a field name") {
			return
		}
		if field(name, at); s.err != nil || !s.more('}') {
			return
		}
	}
}

// items reads an array and calls item for each value, standing before it.
func (s *scanner) items(item func()) {
	if !s.take('[', "to begin an array") {
		return
	}
	if s.peek() == ']' {
		s.pos++
		return
	}
	for {
		if item(); s.err != nil || !s.more(']') {
			return
		}
	}
}

// more passes a comma, or the end of the object or array.
func (s *scanner) more(closing byte) bool {
	switch c := s.peek(); {
	case s.err != nil:
	case c == ',':
		s.pos++
		return true
	case c == closing:
		s.pos++
	default:
		s.unexpected("',' or %q", closing)
	}
	return false
}

// null passes a null, if one is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.literal("null")
	return true
}

func (s *scanner) literal(word string) {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.unexpected("a value")
		return
	}
	s.pos += len(word)
}

// skip passes any value, checking it.
func (s *scanner) skip() {
	if s.depth++; s.depth > maxDepth {
		s.fail(s.pos, "values are nested more than %d deep", maxDepth)
	}
	switch c := s.peek(); {
	case s.err != nil:
	case c == '"':
		s.text()
	case c == '{':
		s.fields(func([]byte, int) { s.skip() })
	case c == '[':
		s.items(s.skip)
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.number()
	}
	s.depth--
}

// number passes a number and returns its text.
func (s *scanner) number() []byte {
	s.peek()
	begin := s.pos
	if s.at('-') {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case s.digits():
	default:
		s.unexpected("a value")
		return nil
	}
	if s.at('.') {
		if s.pos++; !s.digits() {
			s.unexpected("a digit")
			return nil
		}
	}
	if s.at('e') || s.at('E') {
		if s.pos++; s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			s.unexpected("a digit")
			return nil
		}
	}
	return s.data[begin:s.pos]
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) digits() bool {
	begin := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > begin
}

// text reads a string. The result is part of the line where nothing in it is
// escaped, and a copy otherwise.
func (s *scanner) text() []byte {
	if s.peek() != '"' {
		s.unexpected("a text in double quotes")
		return nil
	}
	s.pos++
	begin := s.pos
	var dst []byte // what came before begin, if something in it was escaped
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			part := s.data[begin:s.pos]
			s.pos++
			if dst == nil {
				return part
			}
			return append(dst, part...)
		case c == '\\':
			dst = append(dst, s.data[begin:s.pos]...)
			dst = s.escape(dst)
			begin = s.pos
		case c < ' ':
			s.fail(s.pos, "a control character (%#02x) in a text must be written as \\u%04x", c, c)
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				s.fail(s.pos, "not valid UTF-8 (byte %#02x); give bytes as base64", c)
			}
			s.pos += size
		}
	}
	s.fail(s.pos, "a text does not end")
	return nil
}

// escape reads an escape sequence and appends what it stands for.
func (s *scanner) escape(dst []byte) []byte {
	if s.pos+1 >= len(s.data) {
		s.fail(s.pos, "a text does not end")
		return dst
	}
	c := s.data[s.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return utf8.AppendRune(dst, s.escapedRune())
	default:
		s.fail(s.pos, "no such escape: \\%c", c)
		return dst
	}
	s.pos += 2
	return append(dst, c)
}

// escapedRune reads \uXXXX, or two of them that make one character.
func (s *scanner) escapedRune() rune {
	at := s.pos
	r := s.hex4()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if both := utf16.DecodeRune(r, s.hex4()); s.err == nil && both != utf8.RuneError {
		return both
	}
	s.err = nil
	s.fail(at, "\\u%04x is half of a character", r)
	return r
}

func (s *scanner) hex4() rune {
	if s.pos+6 > len(s.data) || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		s.fail(s.pos, "expected \\u and four hexadecimal digits")
		return 0
	}
	n, err := strconv.ParseUint(string(s.data[s.pos+2:s.pos+6]), 16, 16)
	if err != nil {
		s.fail(s.pos, "expected four hexadecimal digits after \\u")
		return 0
	}
	s.pos += 6
	return rune(n)
}
