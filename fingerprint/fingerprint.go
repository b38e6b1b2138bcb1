// Package fingerprint groups failures that have one cause. A text is read once, from
// left to right: recognisers, a table in recognise.go, tell what varies from one
// failure to the next, and it is left out; the words stay.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Of is the fingerprint of a failure: 12 hexadecimal digits over
// the kind and the telling line of the text, without what varies from one
// failure to the next: numbers, ids, tokens, addresses, names of hosts, URLs,
// paths of files, times, durations, sizes, versions, snippets of JSON, quoted
// values, and values behind keys such as user= and path=. What is kept beside the
// words tells causes apart: quoted names behind words such as column, constraint
// and attribute, values behind keys such as reason= and type=, and codes of up to
// three digits behind words such as status and code.
//
// A fingerprint is stored with its dead letter, and is not made anew: a later
// version may cut out more, and then groups apart what died before it.
func Of(kind pawl.Kind, text string) string {
	var room [maxAlike + 64]byte
	b := append(room[:0], kind...)
	b = append(b, 0)
	b = appendAlike(b, tellingLine(text))
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// tellingLine is the line of a text that says what happened: the first one, but
// of a traceback of Python the last one.
func tellingLine(text string) string {
	first := ""
	for line := range strings.Lines(text) {
		if first = strings.TrimRight(line, "\r\n"); strings.TrimSpace(first) != "" {
			break
		}
	}
	if !strings.HasPrefix(first, "Traceback (most recent call last)") && !strings.HasPrefix(first, `  File "`) {
		return first
	}
	for rest := strings.TrimRight(text, " \r\n"); rest != ""; {
		at := strings.LastIndexByte(rest, '\n')
		line := strings.TrimRight(rest[at+1:], "\r")
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			return line
		}
		rest = rest[:max(at, 0)]
	}
	return first
}

// maxAlike bounds what is compared of a text.
const maxAlike = 320

// alike is a pass over a text that writes down what texts of one cause share. It
// looks ahead a bounded way only, so that no text is slow.
type alike struct {
	in   string
	at   int
	out  []byte
	from int // where the text begins in out
	code int // behind a word that announces a code; 0: there is none
	shut int // the quote that ends a name

	chunk    chars // what is in the chunk, that is up to the next space or bracket
	chunkEnd int

	last, former string // the words before
	lastEnd      int    // the place behind the last one
}

// appendAlike appends text to b without what varies.
func appendAlike(b []byte, text string) []byte {
	a := alike{in: text, out: b, from: len(b), shut: -1}
	for a.at < len(a.in) && len(a.out)-a.from < maxAlike {
		a.next()
	}
	for len(a.out) > a.from && a.out[len(a.out)-1] == ' ' {
		a.out = a.out[:len(a.out)-1]
	}
	return a.out
}

func (a *alike) next() {
	c := a.in[a.at]
	switch {
	case c <= ' ':
		if len(a.out) > a.from && a.out[len(a.out)-1] != ' ' {
			a.out = append(a.out, ' ')
		}
		a.at++
	case a.recognise(c):
		a.vary()
	case isWord(c):
		a.word()
	case isQuote(c) && (a.at == a.shut || a.opensName()):
		a.at++ // so that a name is one, in quotes or not
	default:
		a.out = append(a.out, c)
		a.at++
	}
}

// before is the byte in front of the present one; a space at the beginning.
func (a *alike) before() byte {
	if a.at == 0 {
		return ' '
	}
	return a.in[a.at-1]
}

// vary writes down that something varies, once for several in a row, and passes
// over its unit.
func (a *alike) vary() {
	n := len(a.out)
	for n > a.from && strings.IndexByte("-_+$", a.out[n-1]) >= 0 {
		n--
	}
	if n == a.from || !isWord(a.out[n-1]) {
		a.out = a.out[:n] // its sign, or its beginning
	}
	n = len(a.out)
	for n > a.from && len(a.out)-n < 3 && strings.IndexByte(" ,.:;-_/+>~", a.out[n-1]) >= 0 {
		n--
	}
	if n > a.from && a.out[n-1] == '#' {
		a.out = a.out[:n]
	} else {
		a.out = append(a.out, '#')
	}
	a.unit()
}

// unit passes over what belongs to the number before: its unit, or the rest of a
// version.
func (a *alike) unit() {
	if rest := a.in[a.at:]; len(rest) > 0 && strings.IndexByte(" %-.+~", rest[0]) >= 0 {
		if strings.HasPrefix(rest, "%") {
			a.at++
			return
		}
		if strings.HasPrefix(rest, " %") && (len(rest) == 2 || !isWord(rest[2])) {
			a.at += 2
			return
		}
	}
	if !isDigit(a.before()) {
		return
	}
	at := a.at
	if at < len(a.in) && strings.IndexByte(" -.+~", a.in[at]) >= 0 {
		at++
	}
	end := span(a.in, at, len(a.in), "")
	switch {
	case end == at:
	case at > a.at && a.in[a.at] != ' ':
		if isRelease(strings.TrimRight(a.in[at:end], "0123456789")) {
			a.at = end
		}
	case isUnit(a.in[at:end]):
		a.at = end
	}
}

// word takes a word, or what is left of one: letters and digits.
func (a *alike) word() {
	start := a.at
	s := shape{hex: true}
	for a.at < len(a.in) && isWord(a.in[a.at]) {
		s.add(a.in[a.at])
		a.at++
	}
	w := a.in[start:a.at]
	switch {
	case s.digits == 0:
		a.plain(w, &s)
	case a.isCode(w, start, &s):
		a.out = append(a.out, w...)
	case s.changes > 1 || s.hex || strings.HasPrefix(w, "0x") || a.isID(w, start):
		a.prefix(start, s.digits < len(w) || len(w) >= 12)
		a.vary()
	case isDigit(w[0]):
		unit := strings.TrimLeft(w, "0123456789")
		if isUnit(unit) || isZone(unit) || len(unit) >= 6 {
			unit = ""
		}
		a.at -= len(unit)
		a.vary()
		if a.at < start+len(w) {
			a.out = append(a.out, unit...)
			a.at = start + len(w)
		}
	default:
		letters := strings.TrimRight(w, "0123456789")
		if !isMoney(letters) && !gibberish(letters) {
			a.out = append(a.out, letters...)
		}
		a.vary()
	}
	a.former, a.last, a.lastEnd = a.last, w, start+len(w)
	if a.at == a.lastEnd && a.at < len(a.in) && strings.IndexByte("=:)", a.in[a.at]) >= 0 {
		a.keyed(start)
	}
}

// plain takes a word without digits.
func (a *alike) plain(w string, s *shape) {
	switch n := len(a.out); {
	case len(w) >= 6 && (s.hex && isHexID(w) || len(w) >= 9 && gibberish(w)), a.isSuffix(w),
		len(w) >= 12 && a.isMixed(w):
		a.prefix(a.at-len(w), true)
		a.vary()
		return
	case (isTimeWord(w) || isMoney(w)) && a.dateAhead():
		a.vary()
		return
	case isZone(w) && strings.HasSuffix(strings.TrimRight(string(a.out[max(a.from, n-2):]), " "), "#"):
		a.vary()
		return
	case n-a.from > 1 && a.out[n-1] == ' ' && a.out[n-2] == '#' && len(w) > 3 && w[len(w)-1] == 's':
		w = w[:len(w)-1] // one attempt, two attempts
	}
	a.out = append(a.out, w...)
	a.code = 0
	if announcesCode(w) || strings.EqualFold(w, "error") && a.last == "returned" {
		if w == "HTTP" && strings.HasPrefix(a.in[a.at:], "/") { // HTTP/1.1 404
			a.at = a.skip(a.at+1, "0123456789.")
		}
		a.code = a.at
	}
}

// isSuffix tells the last five characters of a pod's name, without a vowel.
func (a *alike) isSuffix(w string) bool {
	return len(w) == 5 && len(a.out) > a.from+1 && a.before() != ' ' && string(a.out[len(a.out)-2:]) == "#-" &&
		!strings.ContainsAny(w, "aeiouy")
}

// isMixed tells letters of both cases behind the short prefix of an id: names with
// an underscore seldom have capitals.
func (a *alike) isMixed(w string) bool {
	start := a.at - len(w)
	from := start - 1
	for from > 0 && start-from < 7 && 'a' <= a.in[from-1] && a.in[from-1] <= 'z' {
		from--
	}
	return from >= 0 && a.in[start-1] == '_' && start-from > 2 && start-from < 7 &&
		(from == 0 || !isToken(a.in[from-1]) || a.in[from-1] == '=') &&
		(a.at == len(a.in) || a.in[a.at] != '_') && strings.ToLower(w) != w && strings.ToUpper(w) != w
}

// prefix takes back what is in front of a long id, as in usr_0a1b2c3d4e5f: it
// would be cut out, too, if the id read like a token.
func (a *alike) prefix(start int, id bool) {
	from := start
	for from > 0 && start-from < 10 && (isWord(a.in[from-1]) && !isDigit(a.in[from-1]) || a.in[from-1] == '_') {
		from--
	}
	p := a.in[from:start]
	if id && a.at-from >= 16 && len(p) > 1 && p[len(p)-1] == '_' &&
		(from == 0 || a.in[from-1] == '=' || !isToken(a.in[from-1])) &&
		strings.HasSuffix(string(a.out[max(a.from, len(a.out)-len(p)):]), p) {
		a.out = a.out[:len(a.out)-len(p)]
	}
}

// isID tells what is behind the prefix of an id, such as in ord_x7kqzw.
func (a *alike) isID(w string, start int) bool {
	return len(w) >= 6 && start > 1 && a.in[start-1] == '_' && a.shut < start &&
		(a.at == len(a.in) || a.in[a.at] != '_' && a.in[a.at] != '-')
}

// isCode tells whether w is a code that was announced.
func (a *alike) isCode(w string, start int, s *shape) bool {
	if a.code == 0 || start-a.code > 3 || strings.Trim(a.in[a.code:start], " =:([\"'") != "" {
		return false
	}
	most := 3
	if a.in[a.code] == '=' {
		most = 6
	}
	a.code = 0
	return s.digits == len(w) && len(w) <= most || len(w) == 5 &&
		strings.HasSuffix(strings.TrimRight(a.in[:start], " =:("), "SQLSTATE")
}

// until is the next place of one of the bytes, or the end.
func (a *alike) until(at int, bytes string) int {
	if n := strings.IndexAny(a.in[at:], bytes); n >= 0 {
		return at + n
	}
	return len(a.in)
}

// skip is the place behind the bytes from at on.
func (a *alike) skip(at int, bytes string) int {
	return len(a.in) - len(strings.TrimLeft(a.in[at:], bytes))
}

// dateAhead tells whether a number follows, as behind a month, or a month.
func (a *alike) dateAhead() bool {
	at := a.skip(a.at, " ,.-/")
	if at == a.at || at == len(a.in) {
		return false
	}
	return isDigit(a.in[at]) || isTimeWord(a.in[at:span(a.in, at, 10, "")])
}
