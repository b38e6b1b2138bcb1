// Package fingerprint groups failures that have one cause. A text is read once, from
// left to right: a table of patterns finds what varies from one failure to the next,
// and it is left out; the words stay.
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

// tellingLine is the line of a text that says what happened: the first one, but of a traceback of Python the last
// one that is not indented.
func tellingLine(text string) string {
	trimmed := strings.TrimSpace(text)
	first, rest, _ := strings.Cut(trimmed, "\n")
	if !strings.HasPrefix(first, "Traceback (most recent call last)") &&
		(!strings.HasPrefix(first, `File "`) || strings.HasPrefix(text, "File")) {
		return first
	}
	for rest != "" {
		at := strings.LastIndexByte(rest, '\n')
		if line := rest[at+1:]; strings.TrimLeft(line, " \t\r") == line && line != "" {
			return line
		}
		rest = rest[:max(at, 0)]
	}
	return first
}

// maxAlike bounds what is compared of a text, maxRead what is read of it.
const (
	maxAlike = 320
	maxRead  = 2 << 10
)

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
	a := alike{in: text[:min(len(text), maxRead)], out: b, from: len(b), shut: -1}
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

// unit passes over what belongs to the number before: its unit, or the rest of a version.
func (a *alike) unit() {
	rest := a.in[a.at:]
	if strings.HasPrefix(rest, "%") || strings.HasPrefix(rest, " %") && (len(rest) == 2 || !isWord(rest[2])) {
		a.at += strings.IndexByte(rest, '%') + 1
		return
	}
	if rest == "" || !isDigit(a.before()) {
		return
	}
	gap := 0
	if strings.IndexByte(" -.+~", rest[0]) >= 0 {
		gap = 1
	}
	end := span(rest, gap, len(rest), "")
	if w := rest[gap:end]; gap == 1 && rest[0] != ' ' && isRelease(strings.TrimRight(w, digits)) ||
		(gap == 0 || rest[0] == ' ') && isUnit(w) {
		a.at += end
	}
}

const digits = "0123456789"

// word takes a word, or what is left of one: letters and digits.
func (a *alike) word() {
	start := a.at
	a.at = span(a.in, start, len(a.in), "")
	w := a.in[start:a.at]
	unit := strings.TrimLeft(w, digits)
	letters := strings.TrimRight(w, digits)
	switch {
	case !strings.ContainsAny(w, digits):
		a.plain(w)
	case a.isCode(w, start):
		a.out = append(a.out, w...)
	case unit != w && strings.ContainsAny(unit, digits), unit == w && strings.ContainsAny(letters, digits),
		strings.Trim(w, hexDigits) == "", strings.HasPrefix(w, "0x"), gibberish(letters),
		len(w) >= 6 && start > 1 && a.in[start-1] == '_' && a.shut < start && !strings.HasPrefix(a.in[a.at:], "_"):
		a.vary()
	case unit != w:
		a.at -= len(unit)
		if isUnit(unit) || isZone(unit) || len(unit) >= 6 {
			unit = ""
		}
		a.vary()
		if a.at < start+len(w) {
			a.out = append(a.out, unit...)
			a.at = start + len(w)
		}
	default:
		if !isMoney(letters) {
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
func (a *alike) plain(w string) {
	out := string(a.out[max(a.from, len(a.out)-2):])
	switch {
	case isHexID(w), gibberish(w), (isTimeWord(w) || isMoney(w)) && a.dateAhead(),
		isZone(w) && strings.HasSuffix(strings.TrimRight(out, " "), "#"),
		// the end of the name of a pod
		out == "#-" && len(w) == 5 && a.in[a.at-6] == '-' && !strings.ContainsAny(w, "aeiouy"):
		a.vary()
		return
	case out == "# " && len(w) > 3 && w[len(w)-1] == 's':
		w = w[:len(w)-1] // one attempt, two attempts
	}
	a.out = append(a.out, w...)
	a.code = 0
	if announcesCode(w) || strings.EqualFold(w, "error") && a.last == "returned" {
		if w == "HTTP" && strings.HasPrefix(a.in[a.at:], "/") { // HTTP/1.1 404
			a.at = a.skip(a.at+1, digits+".")
		}
		a.code = a.at
	}
}

// isCode reports whether w is a code that was announced.
func (a *alike) isCode(w string, start int) bool {
	if a.code == 0 || start-a.code > 3 || strings.Trim(a.in[a.code:start], " =:([\"'") != "" {
		return false
	}
	most := 3
	if a.in[a.code] == '=' {
		most = 6
	}
	sql := strings.HasSuffix(a.in[:a.code], "SQLSTATE") && len(w) == 5
	a.code = 0
	return sql || len(w) <= most && strings.Trim(w, digits) == ""
}

// skip is the place behind the bytes from at on.
func (a *alike) skip(at int, bytes string) int {
	return len(a.in) - len(strings.TrimLeft(a.in[at:], bytes))
}

// dateAhead reports whether a number follows, as behind a month, or a month.
func (a *alike) dateAhead() bool {
	at := a.skip(a.at, " ,.-/")
	return at > a.at && at < len(a.in) && (isDigit(a.in[at]) || isTimeWord(a.in[at:span(a.in, at, 10, "")]))
}
