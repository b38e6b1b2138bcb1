package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

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

// scanner passes over the values of a line of JSON. The first error sticks, and ends every loop, because nothing
// follows it any more.
type scanner struct {
	data []byte // as far as it is valid
	pos  int
	err  *Error
	// invalid is why data ends early. It counts where nothing before it is wrong.
	invalid *Error
	manner
}

// manner is how a message is read.
type manner struct {
	// strict is for the HTTP API: a body is a text, and unique an object.
	strict bool
	// emitted is for what goes with an ack: the work is done, and a time that is over must not undo it.
	emitted bool
}

// scan begins to read a line.
func scan(line []byte) *scanner {
	s := &scanner{data: line, invalid: invalid(line)}
	if s.invalid != nil {
		s.data = line[:s.invalid.Column-1]
	}
	return s
}

// invalid finds what in a line is not JSON, UTF-8, or a character.
func invalid(line []byte) *Error {
	if bad, ok := errors.AsType[*json.SyntaxError](syntax(line)); ok {
		if strings.HasPrefix(bad.Error(), "unexpected end") {
			bad.Offset++
		}
		return &Error{int(bad.Offset), bad.Error()}
	}
	for at, bad := 0, !utf8.Valid(line); bad; {
		r, size := utf8.DecodeRune(line[at:])
		if r == utf8.RuneError && size == 1 {
			return &Error{at + 1, fmt.Sprintf("not valid UTF-8 (byte %#02x); give bytes as base64", line[at])}
		}
		at += size
	}
	for rest := line; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return nil
		}
		r, length := escaped(rest[at:]), 2
		if utf16.IsSurrogate(r) {
			if length = 12; utf16.DecodeRune(r, escaped(rest[at+6:])) == utf8.RuneError {
				return &Error{len(line) - len(rest) + at + 1, fmt.Sprintf("\\u%04x is half of a character", r)}
			}
		}
		rest = rest[at+length:]
	}
}

// syntax is what package json has against a line.
func syntax(line []byte) error {
	if json.Valid(line) {
		return nil
	}
	return json.Unmarshal(line, new(json.RawMessage))
}

// escaped is the character of the escape \uXXXX that data begins with; 0: there is none.
func escaped(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(n)
}

// end returns what is wrong with the line; nil: nothing.
func (s *scanner) end() error {
	switch {
	case s.err != nil:
		return s.err
	case s.invalid != nil:
		return s.invalid
	}
	return nil
}

// fail reports what is wrong with a value. One that is cut short is not judged.
func (s *scanner) fail(at int, why string, args ...any) {
	if s.err == nil && (s.invalid == nil || s.pos < len(s.data)) {
		s.err = &Error{Column: at + 1, Why: fmt.Sprintf(why, args...)}
	}
	s.pos = len(s.data)
}

func (s *scanner) unexpected(want string) {
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	s.fail(s.pos, "expected %s, found %q", want, r)
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

// members reads an object or an array and calls do for each member, standing before it.
func (s *scanner) members(opening byte, what string, do func()) {
	if s.peek() != opening {
		s.unexpected(what)
		return
	}
	for s.pos++; s.pos < len(s.data) && s.peek() != opening+2; { // } and ] are two behind
		if do(); s.peek() == ',' {
			s.pos++
		}
	}
	s.pos = min(s.pos+1, len(s.data))
}

// fields reads an object and calls field for each name, standing before its value, with the place of the name.
func (s *scanner) fields(field func(name []byte, at int)) {
	s.members('{', "'{' to begin an object", func() {
		s.peek()
		at := s.pos
		name := s.text()
		if s.peek() == ':' {
			s.pos++
			field(name, at)
		}
	})
}

// items reads an array and calls item for each value, standing before it.
func (s *scanner) items(item func()) { s.members('[', "'[' to begin an array", item) }

// null passes a null, if one is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.skip()
	return true
}

// skip passes any value and returns it as it is written.
func (s *scanner) skip() []byte {
	s.peek()
	begin := s.pos
	for depth := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			s.quoted()
		case '{', '[':
			s.pos++
			depth++
			continue
		case '}', ']':
			s.pos++
			depth--
		default:
			s.pos++
			for s.pos < len(s.data) && strings.IndexByte(" \t\r\n,:\"{}[]", s.data[s.pos]) < 0 {
				s.pos++
			}
		}
		if depth == 0 {
			break
		}
	}
	return s.data[begin:s.pos]
}

// quoted passes a text in double quotes.
func (s *scanner) quoted() {
	for s.pos++; s.pos < len(s.data) && s.data[s.pos] != '"'; s.pos++ {
		if s.data[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos = min(s.pos+1, len(s.data))
}

// number passes a number and returns its text.
func (s *scanner) number() []byte {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.unexpected("a number")
		return nil
	}
	return s.skip()
}

// text reads a text. The result is part of the line where nothing in it is escaped, and a copy otherwise.
func (s *scanner) text() []byte {
	if s.peek() != '"' {
		s.unexpected("a text in double quotes")
		return nil
	}
	raw := s.skip()
	if bytes.IndexByte(raw, '\\') < 0 {
		return bytes.Trim(raw, `"`)
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it fails where the line is cut short
	return []byte(text)
}
