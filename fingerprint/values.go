package fingerprint

import "strings"

// This file knows what things look like that vary from one failure to the next.
// Each returns the place behind the thing, or 0 if there is none.

// farAhead bounds how far a look ahead goes.
const farAhead = 1024

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// isWord tells letters, also those beyond ASCII, and digits.
func isWord(c byte) bool { return isDigit(c) || isUpper(c) || 'a' <= c && c <= 'z' || c >= 0x80 }

// span is the place behind letters, digits and the bytes in more from at on, at most so many.
func span(s string, at, most int, more string) int {
	end := at
	for end < len(s) && end-at < most && (isWord(s[end]) || strings.IndexByte(more, s[end]) >= 0) {
		end++
	}
	return end
}

// isToken tells what keys and base64 consist of, besides dots and slashes.
func isToken(c byte) bool { return isWord(c) || c == '_' || c == '-' || c == '+' || c == '=' }

// shape is what a word looks like.
type shape struct {
	digits  int
	changes int // between letters and digits
	hex     bool
	last    byte
}

func (s *shape) add(c byte) {
	if s.last != 0 && isDigit(c) != isDigit(s.last) {
		s.changes++
	}
	if isDigit(c) {
		s.digits++
	}
	s.hex = s.hex && isHex(c)
	s.last = c
}

// chars are the kinds of characters that are in a chunk.
type chars uint8

const (
	hasLower chars = 1 << iota
	hasUpper
	hasDigit
	hasSign // - _ + =, and others
	hasDot
	hasSlash
	hasColon
	hasAt
)

// kinds has the chars of each byte; 0 ends a chunk.
var kinds = func() (k [256]chars) {
	for c := range 256 {
		switch b := byte(c); {
		case isDigit(b):
			k[c] = hasDigit
		case isUpper(b):
			k[c] = hasUpper
		case isWord(b):
			k[c] = hasLower
		case strings.IndexByte("-_+=%~&?$", b) >= 0:
			k[c] = hasSign
		}
	}
	k['.'], k['/'], k['\\'], k[':'], k['@'] = hasDot, hasSlash, hasSlash, hasColon, hasAt
	return k
}()

// look is what is in the present chunk: once for all that begins in it.
func (a *alike) look() chars {
	if a.at >= a.chunkEnd {
		a.chunk, a.chunkEnd = 0, a.at
		for a.chunkEnd < len(a.in) && a.chunkEnd-a.at < farAhead {
			k := kinds[a.in[a.chunkEnd]]
			if k == 0 {
				break
			}
			a.chunk |= k
			a.chunkEnd++
		}
	}
	return a.chunk
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// opensName tells whether the quote here begins what names the cause, such as
// that of a column, and remembers where it ends.
func (a *alike) opensName() bool {
	end := a.shutsAt()
	if end == 0 || a.lastEnd == 0 || isWord(a.before()) {
		return false
	}
	between := a.in[a.lastEnd:a.at]
	if between == "=" {
		if !keepsValue(a.last) {
			return false
		}
	} else if !a.namesCause(between) || !isName(strings.TrimSuffix(a.in[a.at+1:end], "\\")) {
		return false
	}
	a.shut = end
	return true
}

// namesCause tells whether a name is announced, with these characters between.
func (a *alike) namesCause(between string) bool {
	if len(between) > 2 || strings.Trim(between, " :(\\") != "" {
		return false
	}
	w := a.last
	if w == "named" || w == "called" || w == "s" { // the table's
		w = a.former
	}
	return isNaming(w)
}

// isName tells letters, digits, _ . and -, as names of columns have.
func isName(s string) bool { return s != "" && span(s, 0, len(s), "_.-") == len(s) }

// shutsAt is the place of the quote that ends what the one here begins; 0: none.
func (a *alike) shutsAt() int {
	for at := a.at + 1; at < len(a.in) && at-a.at < farAhead; at++ {
		if c := a.in[at]; c == '\\' {
			if at++; a.before() == c && at < len(a.in) && a.in[at] == a.in[a.at] {
				return at // the text was quoted as a whole
			}
		} else if c == a.in[a.at] && (c != '\'' || at+1 == len(a.in) || !isWord(a.in[at+1])) {
			return at
		}
	}
	return 0
}

// quoted is a value in quotes. An apostrophe is none, and a name of a cause.
func (a *alike) quoted() int {
	if isQuote(a.in[a.at]) {
		if isWord(a.before()) || a.at == a.shut || a.opensName() {
			return 0
		}
		if end := a.shutsAt(); end > 0 {
			return end + 1
		}
		return 0
	}
	open, shut := typographic(a.in[a.at:])
	if open == "" || isWord(a.before()) {
		return 0
	}
	start := a.at + len(open)
	if n := strings.Index(a.in[start:min(len(a.in), start+farAhead)], shut); n >= 0 {
		return start + n + len(shut)
	}
	return 0
}

// typographic are the quotes of typesetters.
func typographic(s string) (open, shut string) {
	for _, q := range [][2]string{{"“", "”"}, {"‘", "’"}, {"«", "»"}} {
		if strings.HasPrefix(s, q[0]) {
			return q[0], q[1]
		}
	}
	return "", ""
}

// snippet is JSON, or the like of it; one that was cut goes to the end.
func (a *alike) snippet() int {
	inner := a.at + 1
	for inner < len(a.in) && inner-a.at < 8 && strings.IndexByte(" {[", a.in[inner]) >= 0 {
		inner++
	}
	if inner == len(a.in) || a.in[inner] != '"' && a.in[inner] != '\'' {
		return 0
	}
	depth, quote := 0, byte(0)
	for at := a.at; at < len(a.in); at++ {
		switch c := a.in[at]; {
		case c == '\\':
			at++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return len(a.in)
}

// inBrackets is an address of IPv6 with its brackets.
func (a *alike) inBrackets() int {
	shut := strings.IndexByte(a.in[a.at:min(len(a.in), a.at+64)], ']')
	if shut < 3 || strings.Count(a.in[a.at:a.at+shut], ":") < 2 {
		return 0
	}
	address, _, _ := strings.Cut(a.in[a.at+1:a.at+shut], "%") // without its zone
	if strings.Trim(address, "0123456789abcdefABCDEF:.") != "" {
		return 0
	}
	return a.at + shut + 1
}

// ipv6 is an address of IPv6, or a time of day, or one of hardware.
func (a *alike) ipv6() int {
	if isHex(a.before()) || a.before() == ':' {
		return 0
	}
	end, colons, group, digits := a.at, 0, 0, 0
	for ; end < len(a.in) && end-a.at < 48; end++ {
		c := a.in[end]
		switch {
		case c == ':':
			colons, group = colons+1, 0
		case isHex(c) && group < 4:
			group++
			if isDigit(c) {
				digits++
			}
		case isWord(c):
			return 0
		case c == '.' && colons > 1 && digits > 0: // ends as IPv4
			group = 0
		default:
			return a.address(end, colons, digits)
		}
	}
	return a.address(end, colons, digits)
}

// address judges what ipv6 found, without a colon or full stop of the sentence.
func (a *alike) address(end, colons, digits int) int {
	if end > a.at && a.in[end-1] == ':' && !strings.HasSuffix(a.in[a.at:end], "::") {
		end, colons = end-1, colons-1
	}
	if end > a.at && a.in[end-1] == '.' {
		end--
	}
	if colons < 2 || digits == 0 && !isMAC(a.in[a.at:end]) {
		return 0
	}
	if end < len(a.in) && a.in[end] == '%' { // a zone
		end = span(a.in, end+1, len(a.in), "")
	}
	return end
}

// uuid is 8-4-4-4-12 hexadecimal digits.
func (a *alike) uuid() int {
	const length = 36
	end := a.at + length
	if end > len(a.in) || a.in[a.at+8] != '-' || end < len(a.in) && isWord(a.in[end]) {
		return 0
	}
	for i := range length {
		c := a.in[a.at+i]
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash && c != '-' || !dash && !isHex(c) {
			return 0
		}
	}
	return end
}

// email is an address of a person. What is before the @ is at most 64 bytes long.
func (a *alike) email() int {
	at := span(a.in, a.at, 65, "._%+-")
	if at == a.at || at == len(a.in) || a.in[at] != '@' {
		return 0
	}
	end := span(a.in, at+1, len(a.in), "-.")
	if a.in[end-1] == '.' {
		end--
	}
	if !strings.Contains(a.in[at:end], ".") {
		return 0
	}
	return end
}

// token is a key, a hash, base64: what is long, and reads like no word.
func (a *alike) token() int {
	end := a.at
	for end < len(a.in) && (isToken(a.in[end]) || a.in[end] == '/') && end-a.at < farAhead {
		if end++; a.in[end-1] == '=' && end < len(a.in) && a.in[end] != '=' {
			if isWord(a.in[end]) { // a key
				return 0
			}
			break
		}
	}
	if strings.HasPrefix(a.in[a.at:end], "eyJ") { // JSON in base64
		return span(a.in, end, farAhead-(end-a.at), "_-+=.")
	}
	if end-a.at < 16 || !isRandom(a.in[a.at:end]) {
		return 0
	}
	return end
}

// tokenStart tells whether a token can begin here: not in the middle of one.
func (a *alike) tokenStart() bool {
	at := a.at - 1
	for at >= 0 && a.at-at < 4 && isToken(a.in[at]) && !isWord(a.in[at]) {
		if a.in[at] == '=' {
			return true // behind a key
		}
		at--
	}
	return at < 0 || !isToken(a.in[at])
}
