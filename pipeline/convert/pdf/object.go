// Package pdf reads the text of PDF files, and infers structure from its appearance: headings by size, lists by
// their marks, tables by columns.
package pdf

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
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
	open func([]byte) []byte // decrypts raw; nil: it is not encrypted
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

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isRegular(c byte) bool { return !isSpace(c) && !isDelimiter(c) }

// while tells how far characters are such, from i on.
func (l *lexer) while(i int, such func(byte) bool) int {
	for i < len(l.b) && such(l.b[i]) {
		i++
	}
	return i
}

// skip passes over white space and comments.
func (l *lexer) skip() {
	for {
		l.i = l.while(l.i, isSpace)
		if l.i >= len(l.b) || l.b[l.i] != '%' {
			return
		}
		l.i = l.while(l.i, func(c byte) bool { return c != '\n' && c != '\r' })
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
		return slices.DeleteFunc(l.items("]"), func(v any) bool { _, is := v.(op); return is })
	case c == '+' || c == '-' || c == '.' || isDigit(c):
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
	l.i = l.while(start, isRegular)
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
	start := l.i + 1
	l.i = l.while(start, isRegular)
	n := l.b[start:l.i]
	if bytes.IndexByte(n, '#') < 0 {
		return name(n)
	}
	var out []byte
	for i := 0; i < len(n); i++ {
		c := n[i]
		if c == '#' && i+2 < len(n) {
			if code, err := strconv.ParseUint(string(n[i+1:i+3]), 16, 8); err == nil {
				c = byte(code)
				i += 2
			}
		}
		out = append(out, c)
	}
	return name(out)
}

func (l *lexer) number() any {
	start := l.i
	if c := l.b[start]; c == '-' || c == '+' {
		l.i++
	}
	whole := true
	l.i = l.while(l.i, func(c byte) bool { whole = whole && c != '.'; return c == '.' || isDigit(c) })
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
	start := l.while(l.i, isSpace)
	end := l.while(start, isDigit)
	r := l.while(end, isSpace)
	if start == l.i || end == start || r == end || r >= len(l.b) || l.b[r] != 'R' ||
		r+1 < len(l.b) && isRegular(l.b[r+1]) {
		return 0
	}
	return r + 1
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
	c := l.b[l.i]
	if i := strings.IndexByte("nrtbf", c); i >= 0 {
		return append(out, "\n\r\t\b\f"[i])
	}
	switch {
	case c == '\n':
		return out
	case c == '\r':
		if l.i+1 < len(l.b) && l.b[l.i+1] == '\n' {
			l.i++
		}
		return out
	case c < '0' || c > '7':
		return append(out, c)
	}
	end := min(l.i+3, l.while(l.i, func(c byte) bool { return c >= '0' && c <= '7' }))
	n, _ := strconv.ParseUint(string(l.b[l.i:end]), 8, 16)
	l.i = end - 1
	return append(out, byte(n))
}

func (l *lexer) hex() text {
	var out []byte
	half := false
	for l.i++; l.i < len(l.b) && l.b[l.i] != '>'; l.i++ {
		digit := strings.IndexByte("0123456789abcdef", l.b[l.i]|0x20)
		switch {
		case digit < 0:
			continue
		case half:
			out[len(out)-1] |= byte(digit)
		default:
			out = append(out, byte(digit)<<4)
		}
		half = !half
	}
	l.i = min(l.i+1, len(l.b))
	return text(out)
}

// items reads what there is up to an end.
func (l *lexer) items(end op) []any {
	if l.depth++; l.depth > maxDepth {
		l.i = len(l.b)
	}
	defer func() { l.depth-- }()
	var out []any
	for {
		v := l.next()
		if v == end || v == op("") {
			return out
		}
		out = append(out, v)
	}
}

func (l *lexer) dict() dict {
	d := dict{}
	list := l.items(">>")
	for i := 0; i+1 < len(list); i++ {
		if k, ok := list[i].(name); ok {
			i++
			d[k] = list[i]
		}
	}
	return d
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
