// Package fingerprint groups failures that have one cause. A text is read once, from
// left to right: a table of patterns finds what varies from one failure to the next,
// and it is left out; the words stay.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	sum := sha256.Sum256(append([]byte(kind+"\x00"), alikeIn(text)...))
	return hex.EncodeToString(sum[:6])
}

// tellingLine is the line of a text that says what happened: the first one, but of a traceback of Python the last
// one that is not indented.
func tellingLine(text string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.HasPrefix(first, "Traceback (most recent call last)") ||
		strings.HasPrefix(first, `File "`) && !strings.HasPrefix(text, "File") {
		for _, line := range slices.Backward(strings.Split(rest, "\n")) {
			if line != "" && !strings.Contains(" \t\r", line[:1]) {
				return line
			}
		}
	}
	return first
}

// maxAlike bounds what is compared of a text, maxRead what is read of it, farAhead how far a look ahead goes, so
// that no text is slow.
const (
	maxAlike = 320
	maxRead  = 2 << 10
	farAhead = 512
)

// alike is a pass over a text that writes down what texts of one cause share.
type alike struct {
	in   string
	at   int
	out  []byte
	code int // behind a word that announces a code; 0: there is none
	shut int // the quote that ends a name

	last, former string // the words before
	lastEnd      int    // the place behind the last one
}

// alikeIn returns the telling line of a text without what varies.
func alikeIn(text string) []byte {
	text = tellingLine(text)
	a := alike{in: text[:min(len(text), maxRead)], out: make([]byte, 0, maxAlike+64), shut: -1}
	for a.at < len(a.in) && len(a.out) < maxAlike {
		c := a.in[a.at]
		if end := a.varying(c); end > 0 {
			a.at = end
			a.vary()
			continue
		}
		if isWord(c) {
			a.word()
			continue
		}
		switch {
		case c <= ' ':
			if len(a.out) > 0 && a.out[len(a.out)-1] != ' ' {
				a.out = append(a.out, ' ')
			}
		case isQuote(c) && (a.at == a.shut || a.opensName()): // so that a name is one, in quotes or not
		default:
			a.out = append(a.out, c)
		}
		a.at++
	}
	return bytes.TrimRight(a.out, " ")
}

// before is the byte in front of the present one; a space at the beginning.
func (a *alike) before() byte {
	if a.at == 0 {
		return ' '
	}
	return a.in[a.at-1]
}

// ahead is what a look ahead sees.
func (a *alike) ahead() string { return a.in[a.at:min(len(a.in), a.at+farAhead)] }

// vary writes down that something varies, once for several in a row, and passes
// over its unit.
func (a *alike) vary() {
	t := bytes.TrimRight(a.out, "-_+$")
	if len(t) == 0 || !isWord(t[len(t)-1]) {
		a.out = t // without its sign, or its beginning
	}
	t = bytes.TrimRight(a.out, " ,.:;-_/+>~")
	if len(a.out)-len(t) <= 3 && bytes.HasSuffix(t, []byte("#")) {
		a.out = t
	} else {
		a.out = append(a.out, '#')
	}
	rest, gap := a.in[a.at:], 0
	if rest != "" && strings.IndexByte(" -.+~", rest[0]) >= 0 {
		gap = 1
	}
	w := leadingWord(rest[gap:])
	switch {
	case strings.HasPrefix(rest, "%"):
		a.at++
	case strings.HasPrefix(rest, " %") && leadingWord(rest[2:]) == "":
		a.at += 2
	case w == "" || !isDigit(a.before()):
	case gap == 1 && rest[0] != ' ' && isRelease(strings.TrimRight(w, digits)), // the rest of a version
		(gap == 0 || rest[0] == ' ') && isUnit(w):
		a.at += gap + len(w)
	}
}

const digits = "0123456789"

// word takes a word, or what is left of one: letters and digits.
func (a *alike) word() {
	start := a.at
	w := leadingWord(a.in[start:])
	a.at += len(w)
	unit, letters := strings.TrimLeft(w, digits), strings.TrimRight(w, digits)
	switch {
	case !strings.ContainsAny(w, digits):
		a.plain(w)
	case a.isCode(w, start):
		a.out = append(a.out, w...)
	case unit != w && strings.ContainsAny(unit, digits), unit == w && strings.ContainsAny(letters, digits),
		strings.Trim(w, hexDigits) == "", strings.HasPrefix(w, "0x"), gibberish(letters),
		len(w) >= 6 && start > 1 && a.in[start-1] == '_' && a.shut < start && !strings.HasPrefix(a.in[a.at:], "_"):
		a.vary()
	case unit == w:
		if !isMoney(letters) {
			a.out = append(a.out, letters...)
		}
		a.vary()
	default:
		a.at -= len(unit)
		if a.vary(); a.at < start+len(w) {
			if !isZone(unit) && len(unit) < 6 {
				a.out = append(a.out, unit...)
			}
			a.at = start + len(w)
		}
	}
	a.former, a.last, a.lastEnd = a.last, w, start+len(w)
	if a.at == a.lastEnd && a.at < len(a.in) && strings.IndexByte("=:)", a.in[a.at]) >= 0 {
		a.keyed(start)
	}
}

// plain takes a word without digits.
func (a *alike) plain(w string) {
	out := string(a.out[max(0, len(a.out)-2):])
	switch {
	case isHexID(w), gibberish(w), (isTimeWord(w) || isMoney(w)) && dateAhead.MatchString(a.ahead()),
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
		if w == "HTTP" {
			a.at += len(httpVersion.FindString(a.ahead()))
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
