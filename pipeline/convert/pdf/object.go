// Package pdf reads the text of PDF files, and infers structure from its appearance: headings by size, lists by
// their marks, tables by columns.
package pdf

import (
	"bytes"
	"strconv"
)

// Objects of a file: nil, bool, float64, name, text (a string), []any, dict, ref and *stream.
type (
	name string
	text string
	dict map[name]any
	ref  int // generations are not told apart: the last one in the file counts
)

type stream struct {
	dict
	raw  []byte
	open func([]byte) []byte // of one in a file that is sealed
}

// op is an operator of a content stream, or a keyword.
type op string

// lexer reads objects.
type lexer struct {
	b     []byte
	i     int
	depth int
	refs  bool // "1 0 R" is a reference
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

func (l *lexer) skip() {
	for l.i < len(l.b) {
		switch c := l.b[l.i]; {
		case isSpace(c):
			l.i++
		case c == '%':
			for l.i < len(l.b) && l.b[l.i] != '\n' && l.b[l.i] != '\r' {
				l.i++
			}
		default:
			return
		}
	}
}

const maxDepth = 64

// next reads an object or an operator; op("") at the end.
func (l *lexer) next() any {
	l.skip()
	if l.i >= len(l.b) {
		return op("")
	}
	switch c := l.b[l.i]; {
	case c == '/':
		return l.name()
	case c == '(':
		return l.literal()
	case c == '<' && l.i+1 < len(l.b) && l.b[l.i+1] == '<':
		l.i += 2
		return l.dict()
	case c == '<':
		return l.hex()
	case c == '[':
		l.i++
		return l.array()
	case c == '+' || c == '-' || c == '.' || c >= '0' && c <= '9':
		return l.number()
	case isDelimiter(c):
		l.i++
		if c == '>' && l.i < len(l.b) && l.b[l.i] == '>' {
			l.i++
			return op(">>")
		}
		return op(c)
	}
	start := l.i
	for l.i < len(l.b) && !isSpace(l.b[l.i]) && !isDelimiter(l.b[l.i]) {
		l.i++
	}
	switch word := string(l.b[start:l.i]); word {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	default:
		return op(word)
	}
}

func (l *lexer) name() name {
	l.i++
	start := l.i
	escaped := false
	for l.i < len(l.b) && !isSpace(l.b[l.i]) && !isDelimiter(l.b[l.i]) {
		escaped = escaped || l.b[l.i] == '#'
		l.i++
	}
	if !escaped {
		return name(l.b[start:l.i])
	}
	var out []byte
	for i := start; i < l.i; i++ {
		if l.b[i] == '#' && i+2 < l.i {
			if n, err := strconv.ParseUint(string(l.b[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, l.b[i])
	}
	return name(out)
}

func (l *lexer) number() any {
	start := l.i
	whole := true
	for l.i < len(l.b) {
		c := l.b[l.i]
		if c == '.' || (c == '-' || c == '+') && l.i == start {
			whole = whole && c != '.'
		} else if c < '0' || c > '9' {
			break
		}
		l.i++
	}
	if l.i == start {
		l.i++
	}
	n, _ := strconv.ParseFloat(string(l.b[start:l.i]), 64)
	if l.refs && whole && n > 0 {
		if end := l.reference(); end > 0 {
			l.i = end
			return ref(n)
		}
	}
	return n
}

// reference tells where " 0 R" ends; 0 if it does not follow.
func (l *lexer) reference() int {
	i := l.i
	for i < len(l.b) && isSpace(l.b[i]) {
		i++
	}
	start := i
	for i < len(l.b) && l.b[i] >= '0' && l.b[i] <= '9' {
		i++
	}
	if i == start || i == l.i {
		return 0
	}
	mid := i
	for i < len(l.b) && isSpace(l.b[i]) {
		i++
	}
	if i == mid || i >= len(l.b) || l.b[i] != 'R' || i+1 < len(l.b) && !isSpace(l.b[i+1]) && !isDelimiter(l.b[i+1]) {
		return 0
	}
	return i + 1
}

func (l *lexer) literal() text {
	l.i++
	var out []byte
	for nested := 1; l.i < len(l.b); l.i++ {
		c := l.b[l.i]
		switch c {
		case '(':
			nested++
		case ')':
			if nested--; nested == 0 {
				l.i++
				return text(out)
			}
		case '\\':
			out = l.escape(out)
			continue
		}
		out = append(out, c)
	}
	return text(out)
}

func (l *lexer) escape(out []byte) []byte {
	l.i++
	if l.i >= len(l.b) {
		return out
	}
	switch c := l.b[l.i]; c {
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '\r':
		if l.i+1 < len(l.b) && l.b[l.i+1] == '\n' {
			l.i++
		}
		return out
	case '\n':
		return out
	default:
		if c < '0' || c > '7' {
			return append(out, c)
		}
		n, digits := 0, 0
		for digits < 3 && l.i < len(l.b) && l.b[l.i] >= '0' && l.b[l.i] <= '7' {
			n = n*8 + int(l.b[l.i]-'0')
			l.i++
			digits++
		}
		l.i--
		return append(out, byte(n))
	}
}

func (l *lexer) hex() text {
	l.i++
	var out []byte
	high, have := byte(0), false
	for ; l.i < len(l.b); l.i++ {
		c := l.b[l.i]
		var d byte
		switch {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = c | 0x20 - 'a' + 10
		case c == '>':
			l.i++
			if have {
				out = append(out, high<<4)
			}
			return text(out)
		default:
			continue
		}
		if have {
			out = append(out, high<<4|d)
		}
		high, have = d, !have
	}
	return text(out)
}

func (l *lexer) array() []any {
	var out []any
	if l.depth++; l.depth > maxDepth {
		l.i = len(l.b)
	}
	defer func() { l.depth-- }()
	for {
		switch v := l.next().(type) {
		case op:
			if v == "]" || v == "" {
				return out
			}
		default:
			out = append(out, v)
		}
	}
}

func (l *lexer) dict() dict {
	d := dict{}
	if l.depth++; l.depth > maxDepth {
		l.i = len(l.b)
	}
	defer func() { l.depth-- }()
	for {
		switch k := l.next().(type) {
		case name:
			v := l.next()
			if v == op(">>") || v == op("") {
				return d
			}
			d[k] = v
		case op:
			if k == ">>" || k == "" {
				return d
			}
		}
	}
}

// object reads the object that begins after "obj", with its stream.
func (l *lexer) object(length func(any) int) any {
	v := l.next()
	d, ok := v.(dict)
	if !ok {
		return v
	}
	l.skip()
	if !bytes.HasPrefix(l.b[l.i:], []byte("stream")) {
		return d
	}
	l.i += len("stream")
	if l.i < len(l.b) && l.b[l.i] == '\r' {
		l.i++
	}
	if l.i < len(l.b) && l.b[l.i] == '\n' {
		l.i++
	}
	n := length(d["Length"])
	if end := l.i + n; n < 0 || end > len(l.b) || !bytes.HasPrefix(bytes.TrimLeft(l.b[end:min(end+32, len(l.b))],
		"\r\n \t"), []byte("endstream")) {
		if n = bytes.Index(l.b[l.i:], []byte("endstream")); n < 0 {
			n = len(l.b) - l.i
		}
	}
	s := &stream{dict: d, raw: l.b[l.i : l.i+n]}
	l.i += n
	return s
}
