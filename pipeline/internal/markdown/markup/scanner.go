// Package markup reads XML and HTML fast and in bounded memory: a scanner over a text that is in memory, and small
// trees of single elements. It expands no entities but those of HTML, so that no document can blow itself up.
package markup

import (
	"errors"
	"html"
	"strings"
	"unicode/utf8"
)

// Token is what [Scanner.Next] found.
type Token uint8

// The tokens. Comments, processing instructions and document types are passed over.
const (
	End   Token = iota // the text is over, or [Scanner.Err] says what is wrong
	Text               // Scanner.Text
	Open               // Scanner.Name, and its attributes; Scanner.Empty if it closes itself
	Close              // Scanner.Name
)

// Errors of the scanner and of trees.
var (
	ErrEntities = errors.New("it declares entities of its own")
	ErrSyntax   = errors.New("it is not well-formed XML")
	ErrDepth    = errors.New("its elements are nested too deeply")
)

// Scanner reads a text token by token. Names are without their prefix.
type Scanner struct {
	Name  string
	Text  string // as it is in the source; see [Scanner.Decoded]
	Empty bool
	Err   error

	src   string
	pos   int
	html  bool
	cdata bool   // Text is literal
	attrs string // as they are in the source
	raw   string // HTML: the element whose text follows literally
}

// NewXML reads XML strictly: what is cut off is an error.
func NewXML(src string) *Scanner { return &Scanner{src: strings.TrimPrefix(src, "\uFEFF")} }

// NewHTML reads HTML: names are in lower case, and nothing is an error.
func NewHTML(src string) *Scanner { return &Scanner{src: src, html: true} }

// Next reads the next token.
func (s *Scanner) Next() Token {
	if s.raw != "" {
		return s.rawText()
	}
	for s.pos < len(s.src) {
		if s.src[s.pos] != '<' || !s.tagFollows() {
			return s.text()
		}
		rest := s.src[s.pos:]
		switch rest[1] {
		case '/':
			return s.closing()
		case '!', '?':
			if strings.HasPrefix(rest, "<![CDATA[") {
				return s.literal()
			}
			if !s.skip(rest) {
				return End
			}
		default:
			return s.opening()
		}
	}
	return End
}

// tagFollows tells a tag from a "<" in a text.
func (s *Scanner) tagFollows() bool {
	if s.pos+1 >= len(s.src) {
		return !s.html
	}
	c := s.src[s.pos+1]
	return !s.html || c == '/' || c == '!' || c == '?' || letter(c)
}

func letter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }

func (s *Scanner) text() Token {
	start := s.pos
	for {
		i := strings.IndexByte(s.src[s.pos+1:], '<')
		if i < 0 {
			s.pos = len(s.src)
			break
		}
		if s.pos += 1 + i; s.tagFollows() {
			break
		}
	}
	s.Text, s.cdata = s.src[start:s.pos], false
	return Text
}

func (s *Scanner) literal() Token {
	body := s.src[s.pos+len("<![CDATA["):]
	end := strings.Index(body, "]]>")
	if end < 0 {
		if !s.html {
			return s.fail(ErrSyntax)
		}
		end = len(body)
	}
	s.Text, s.cdata = body[:end], true
	s.pos = min(s.pos+len("<![CDATA[")+end+3, len(s.src))
	return Text
}

// skip passes over a comment, a processing instruction or a document type.
func (s *Scanner) skip(rest string) bool {
	var end int
	size := 1
	switch {
	case s.html && (strings.HasPrefix(rest, "<!-->") || strings.HasPrefix(rest, "<!--->")): // a comment that is empty
		end = strings.IndexByte(rest, '>')
	case s.html && strings.HasPrefix(rest, "<!--"):
		if end, size = strings.Index(rest, "-->"), 3; strings.Contains(rest[:max(end, 0)], "--!>") {
			end, size = strings.Index(rest, "--!>"), 4
		}
		if end < 0 {
			end, size = strings.Index(rest, "--!>"), 4
		}
	case strings.HasPrefix(rest, "<!--"):
		end, size = strings.Index(rest, "-->"), 3
	case rest[1] == '?' && !s.html:
		end, size = strings.Index(rest, "?>"), 2
	default:
		end = strings.IndexByte(rest, '>')
		if open := strings.IndexByte(rest, '['); !s.html && open >= 0 && open < end {
			if end = strings.Index(rest, "]>"); end >= 0 && strings.Contains(rest[:end], "<!ENTITY") {
				s.fail(ErrEntities)
				return false
			}
			size = 2
		}
	}
	if end < 0 {
		if !s.html {
			s.fail(ErrSyntax)
		}
		s.pos = len(s.src)
		return s.html
	}
	s.pos += end + size
	return true
}

func (s *Scanner) fail(err error) Token {
	s.Err, s.pos = err, len(s.src)
	return End
}

func (s *Scanner) closing() Token {
	end := strings.IndexByte(s.src[s.pos:], '>')
	if end < 0 {
		if !s.html {
			return s.fail(ErrSyntax)
		}
		s.pos = len(s.src)
		return End
	}
	s.name(strings.TrimRight(s.src[s.pos+2:s.pos+end], " \t\r\n"))
	s.pos += end + 1
	return Close
}

func (s *Scanner) name(name string) {
	if s.html {
		s.Name = lower(name)
		return
	}
	s.Name = name[strings.IndexByte(name, ':')+1:]
}

func lower(name string) string {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return strings.ToLower(name)
		}
	}
	return name
}

func (s *Scanner) opening() Token {
	i := s.pos + 1
	for i < len(s.src) && !space(s.src[i]) && s.src[i] != '>' && s.src[i] != '/' {
		i++
	}
	s.name(s.src[s.pos+1 : i])
	start := i
	for i < len(s.src) && s.src[i] != '>' {
		if c := s.src[i]; (c == '"' || c == '\'') && s.src[i-1] == '=' || !s.html && (c == '"' || c == '\'') {
			end := strings.IndexByte(s.src[i+1:], c)
			if end < 0 {
				break
			}
			i += 1 + end
		}
		i++
	}
	if i >= len(s.src) || s.src[i] != '>' {
		if !s.html {
			return s.fail(ErrSyntax)
		}
		i = start + strings.IndexByte(s.src[start:], '>') // a quote without its end
		if i < start {
			s.pos = len(s.src)
			return End
		}
	}
	s.attrs = s.src[start:i]
	s.Empty = strings.HasSuffix(s.attrs, "/")
	s.pos = i + 1
	if s.html && !s.Empty {
		switch s.Name {
		case "script", "style", "textarea", "title", "xmp", "noembed", "noframes":
			s.raw = s.Name
		}
	}
	return Open
}

// rawText reads the text of an element in which HTML knows no elements.
func (s *Scanner) rawText() Token {
	name := s.raw
	s.raw = ""
	start := s.pos
	for i := start; ; {
		j := strings.Index(s.src[i:], "</")
		if j < 0 {
			s.pos = len(s.src)
			break
		}
		i += j
		if len(s.src) >= i+2+len(name) && strings.EqualFold(s.src[i+2:i+2+len(name)], name) {
			s.pos = i
			break
		}
		i += 2
	}
	s.Text, s.cdata = s.src[start:s.pos], name == "script" || name == "style"
	return Text
}

// Decoded is Text with its character references replaced.
func (s *Scanner) Decoded() string {
	if s.cdata {
		return s.Text
	}
	return html.UnescapeString(s.Text)
}

// Attr returns an attribute of the element that was opened. A name without a prefix matches any prefix; in XML, one
// with a prefix matches any other one, since documents choose theirs.
func (s *Scanner) Attr(name string) string {
	v, _ := s.Lookup(name)
	return v
}

// Lookup returns an attribute, and whether it is there.
func (s *Scanner) Lookup(name string) (string, bool) { return lookup(s.attrs, name, s.html) }

func lookup(attrs, name string, asHTML bool) (string, bool) {
	_, local, prefixed := strings.Cut(name, ":")
	if prefixed && !asHTML {
		name = local
	}
	for i := 0; i < len(attrs); {
		for i < len(attrs) && (space(attrs[i]) || attrs[i] == '/') {
			i++
		}
		start := i
		for i < len(attrs) && attrs[i] != '=' && !space(attrs[i]) && attrs[i] != '/' {
			i++
		}
		key := attrs[start:i]
		for i < len(attrs) && space(attrs[i]) {
			i++
		}
		value := ""
		if i < len(attrs) && attrs[i] == '=' {
			value, i = attrValue(attrs, i+1)
		}
		switch colon := strings.IndexByte(key, ':'); {
		case asHTML:
		case prefixed && colon < 0:
			key = ""
		default:
			key = key[colon+1:]
		}
		if key == name || asHTML && strings.EqualFold(key, name) {
			return html.UnescapeString(value), true
		}
		if i == start {
			i++
		}
	}
	return "", false
}

// attrValue reads the value that begins at i, and tells where it ends.
func attrValue(attrs string, i int) (string, int) {
	for i < len(attrs) && space(attrs[i]) {
		i++
	}
	if i >= len(attrs) {
		return "", i
	}
	if q := attrs[i]; q == '"' || q == '\'' {
		end := strings.IndexByte(attrs[i+1:], q)
		if end < 0 {
			return attrs[i+1:], len(attrs)
		}
		return attrs[i+1 : i+1+end], i + 2 + end
	}
	start := i
	for i < len(attrs) && !space(attrs[i]) {
		i++
	}
	return attrs[start:i], i
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }
