package fingerprint

import (
	"regexp"
	"strings"
)

// This file has the patterns of what varies from one failure to the next.

// run is a pattern of what a URL or a path goes on with: brackets are part of it only in pairs.
func run(stop string) string {
	c := "[^\\s\"'`<>|(){}\\[\\]" + stop + "]"
	return `(?:` + c + `|\(` + c + `*\)|\[` + c + `*\]|\{` + c + `*\})`
}

// pattern is one kind of thing that varies.
type pattern struct {
	first string // what it begins with; empty: where a word begins
	when  string // the rest of the chunk, up to the next space or bracket, has any of these
	re    *regexp.Regexp
	ok    func(a *alike, s string) bool // judges what was found; nil: it counts
	run   bool                          // it ends before the punctuation of the text
}

func compile(re string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + re + `)`) }

// patterns are what varies, in order. The first one that finds something counts.
var patterns = []pattern{
	{"", ":", compile(`\d{4}-\d\d-\d\dT[\d:.]+\d(?:[+-]\d\d:\d\d)?`), nil, false},
	{"", ":", compile(`(?:[A-Za-z][\w+.-]{0,23}:/|arn:)/?` + run(`\\`) + `+`), isURL, true},
	{"", ":-", compile(`(?:[0-9A-Fa-f]{2}(?::|-)){5}[0-9A-Fa-f]{2}\b`), nil, false},
	{"", ":", compile(ipv6), hasDigits, true},
	{"", ":", compile(`[A-Za-z]:[\\/](?:[^/\s]` + windows + `)`), nil, true},
	{"", "-", compile(`[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b`), nil, false},
	{"", "@", compile(`[\w.%+-]{1,64}@[\w-]+(?:\.[\w-]+)+`), nil, false},
	{"", "/.\\", compile(run(`:`) + `+`), (*alike).isRelative, true},
	{"", ".:", compile(`[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{2,5}\b)?`), (*alike).isHost, false},
	{":", "", compile(`:` + ipv6), hasDigits, true},
	{"[", "", compile(`\[[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:%\w+)?\]`), nil, false},
	{"/.~$", "", compile(`(?:/+[\w.@%~+{\[-]|\.\.?[\\/][^/]|~/.|\$\{?[A-Za-z_]\w*\}?/.)` + run(`:`) + `*`),
		(*alike).beginsPath, true},
	{"\\", "", compile(`\\\\(?:\\\\)?\w[\w.$~&+-]*\\` + windows), (*alike).beginsPath, true},
	{"+", "", compile(`\+\d(?:[ ().-]{0,2}\d){7,14}\b`), nil, false},
	{"(", "", compile(`\(\d{3}\)[ .-]?\d{3}[ .-]?\d{4}\b`), nil, false},
	{"\xe2\xc2", "", compile(`“[^”]*”|‘[^’]*’|«[^»]*»`),
		func(a *alike, _ string) bool { return !isWord(a.before()) }, false},
}

const (
	ipv6 = `(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}(?:\.\d+){0,3})?(?:%\w+)?`
	// windows is the rest of a path of Windows, where a folder may have spaces in its name.
	windows = `(?:[\w.$~&+-]*(?: [\w()&.-]+){0,2}\\)*` + "[^\\s\"'`<>|(){}\\[\\]:]*"
)

var (
	opensJSON = compile(`[{\[][ {\[]{0,7}["']`)
	next      = regexp.MustCompile(`[,;]\w*(?:=|:\S)`) // a part of a text that has several
	file      = regexp.MustCompile(`\.(?:\d*[a-z][a-z0-9]{0,3}|\d*[A-Z][A-Z0-9]{0,3}|jsonl|xhtml|proto|class|swift|` +
		`parquet|ndjson)$`) // the ending of the name of a file
	name        = compile("[\"'`][\\w.-]+\\\\?[\"'`]") // one in quotes, as names of columns are
	base64      = compile(`eyJ[\w.+/=-]+|[\w+/-]+={0,2}`)
	withID      = compile(`([a-z]{2,6}_([0-9A-Za-z]{6,}))(?:[^\w-]|$)`) // usr_0a1b2c3d4e5f
	dateAhead   = compile(`[ ,.\-/]+(?:\d|` + strings.Join(strings.Fields(timeWords), `\b|`) + `\b)`)
	httpVersion = compile(`/[\d.]*`)      // HTTP/1.1 404
	inParens    = compile(`\)=\([^)]*\)`) // Key (email)=(bob@example.com) already exists
	given       = compile("(=>? {0,3}|: {0,3})(?:" +
		"(\"[^\"]*\"|'[^']*')|[^\\s\"'`|<>={\\[(:/\\\\][^\\s\"'`|<>&:,;)\\]}]*|/[^\\s,;]*)")
)

// varying returns the place behind what varies as a whole, if it begins here with c, or 0.
func (a *alike) varying(c byte) int {
	if isQuote(c) {
		return a.quoted()
	}
	if (c == '{' || c == '[') && opensJSON.MatchString(a.ahead()) {
		return a.snippet()
	}
	var chunk, inside string
	if isWord(c) && !isWord(a.before()) {
		chunk = a.ahead()
		if end := strings.IndexAny(chunk, " \t\r\n!\"'()*,;<>[]^{|}`#"); end >= 0 {
			chunk = chunk[:end]
		}
		if inside = chunk; strings.IndexByte("./\\:@", chunk[len(chunk)-1]) >= 0 {
			inside = chunk[:len(chunk)-1] // without what punctuates the text
		}
	}
	for i := range patterns {
		if p := &patterns[i]; strings.IndexByte(p.first, c) >= 0 || strings.ContainsAny(inside, p.when) ||
			p.when == ".:" && inside != "" && a.behind(resolves) {
			if end := a.find(p); end > 0 {
				return end
			}
		}
	}
	if len(chunk) >= 8 && strings.ContainsAny(inside, digits+"-_+=%~&?$./\\:@") {
		return a.token(chunk)
	}
	return 0
}

// find returns the place behind what p finds here, or 0.
func (a *alike) find(p *pattern) int {
	s := p.re.FindString(a.ahead())
	if s == "" {
		return 0
	}
	if p.run {
		if at := next.FindStringIndex(s); at != nil {
			s = s[:at[0]]
		}
		end := len(strings.TrimRight(s, ".:,;!?-"))
		if strings.HasPrefix(s[end:], "::") {
			end += len("::")
		}
		s = s[:end]
	}
	if s == "" || p.ok != nil && !p.ok(a, s) {
		return 0
	}
	return a.at + len(s)
}

func isURL(_ *alike, s string) bool {
	return strings.HasPrefix(s, "arn:") || strings.Contains(s, "://")
}

func hasDigits(a *alike, s string) bool {
	return !isWord(a.before()) && a.before() != ':' && strings.ContainsAny(s, "0123456789") &&
		(a.at+len(s) == len(a.in) || !isWord(a.in[a.at+len(s)]))
}

func (a *alike) beginsPath(string) bool {
	b := a.before()
	return !isWord(b) && strings.IndexByte(".)]/\\<*~", b) < 0
}

// joined reports whether the word here goes on from one before.
func (a *alike) joined() bool { return strings.IndexByte("._-/\\@$", a.before()) >= 0 }

// behind reports whether the word before is directly in front, and among some.
func (a *alike) behind(among func(string) bool) bool { return a.lastEnd == a.at-1 && among(a.last) }

// isRelative reports whether p is a path without a beginning of its own: behind a word such as open, with the
// ending of a file, or with two slashes.
func (a *alike) isRelative(p string) bool {
	first, _, slashed := strings.Cut(p, "/")
	opened := a.behind(opensFile)
	switch {
	case a.joined() || strings.HasPrefix(p, "HTTP"):
		return false
	case !slashed:
		return opened && strings.HasPrefix(a.in[a.at+len(p):], ": ") && file.MatchString(p)
	case strings.Contains(first, "=") || isMedia(first) || isForge(first):
		return false
	case opened || file.MatchString(p[strings.LastIndexByte(p, '/'):]) || isDomain(first):
		return true
	}
	return strings.Count(p, "/") > 1 && a.before() != ':' && p != strings.ToUpper(p)
}

// isDomain reports whether a name ends as names of hosts do.
func isDomain(name string) bool {
	first, rest, _ := strings.Cut(name, ".")
	top := rest[strings.LastIndexByte(rest, '.')+1:]
	return first != "" && strings.ToLower(name) == name && (plainDomains(top) ||
		!startsPackage(first) && (domains(top) || wordDomains(top) && top != rest))
}

// isHost reports whether s is the name of a host, with its port: one without a port ends in a usual domain; one
// with a port has several labels, or is behind a word such as dial.
func (a *alike) isHost(s string) bool {
	rest := a.in[a.at+len(s):]
	name, _, port := strings.Cut(s, ":")
	if a.joined() || rest != "" && (isWord(rest[0]) || strings.IndexByte("($@\\_#=", rest[0]) >= 0 ||
		rest[0] == '/' && isForge(name)) {
		return false
	}
	switch {
	case name == "localhost" || isDomain(name):
		return true
	case !port:
		return a.behind(resolves) && (a.last != "lookup" || strings.HasPrefix(rest, ": no such host") ||
			strings.HasPrefix(rest, " on "))
	}
	return strings.Contains(name, ".") && !file.MatchString(name) || a.before() == '[' || a.behind(dials)
}

// token is a key, a hash, base64: what is long, and reads like no word, or an id behind its prefix.
func (a *alike) token(chunk string) int {
	before := strings.TrimRight(a.in[max(a.at-4, 0):a.at], "_-+")
	if before != "" && before[len(before)-1] != '=' && isToken(before[len(before)-1]) {
		return 0 // in the middle of one
	}
	if m := withID.FindStringSubmatch(chunk); m != nil && len(m[1]) >= 16 && isID(m[2]) {
		return a.at + len(m[1])
	}
	s := base64.FindString(chunk)
	if rest := chunk[len(s):]; strings.HasPrefix(s, "eyJ") || len(s) >= 16 && isRandom(s, false) &&
		(rest == "" || !isWord(rest[0]) || !strings.HasSuffix(s, "=")) {
		return a.at + len(s)
	}
	return 0
}

// isID reports whether w could be an id behind its prefix.
func isID(w string) bool {
	return strings.ContainsAny(w, "0123456789") || len(w) >= 12 && strings.ToLower(w) != w && strings.ToUpper(w) != w ||
		gibberish(w) || isHexID(w)
}

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
	if isWord(a.before()) || a.at == a.shut {
		return 0
	}
	if end := a.shutsAt(); end > 0 && !a.opensName() {
		return end + 1
	}
	return 0
}

// opensName reports whether the quote here begins what names the cause, such as that of a column, and
// remembers where it ends.
func (a *alike) opensName() bool {
	end := a.shutsAt()
	if end == 0 || a.lastEnd == 0 || isWord(a.before()) {
		return false
	}
	between, w := a.in[a.lastEnd:a.at], a.last
	if w == "named" || w == "called" || w == "s" { // the table's
		w = a.former
	}
	if between == "=" && keepsValue(a.last) || len(between) < 3 && strings.Trim(between, " :(\\") == "" &&
		isNaming(w) && name.MatchString(a.in[a.at:end+1]) {
		a.shut = end
		return true
	}
	return false
}

// snippet is JSON, or the like of it; one that was cut goes to the end.
func (a *alike) snippet() int {
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

// keyed passes over the value behind a key that says who or which one it was.
func (a *alike) keyed(start int) {
	key, rest := a.in[start:a.at], a.ahead()
	if s := inParens.FindString(rest); s != "" {
		a.out, a.at = append(a.out, ")="...), a.at+len(s)
		a.vary()
		return
	}
	if !isIdentity(key) || rest[0] == ':' && strings.EqualFold(key, "key") ||
		key == "name" && start > 0 && strings.IndexByte("_ ", a.in[start-1]) >= 0 && isNaming(a.former) {
		return
	}
	m := given.FindStringSubmatchIndex(rest)
	if m == nil || rest[0] == ':' && m[4] < 0 && !isValue(rest[m[3]:m[1]], rest[m[1]:]) {
		return
	}
	a.out, a.at = append(a.out, rest[:m[3]]...), a.at+m[1]
	a.vary()
}

// isValue reports whether v, behind a colon, is a value, and not the beginning of what is wrong with it.
func isValue(v, rest string) bool {
	switch {
	case v[0] == '/':
		return false
	case strings.ContainsAny(v, "0123456789@._-/"):
		return true
	case isProse(v):
		return false
	case rest == "" || strings.IndexByte(",;)]}", rest[0]) >= 0:
		return true
	}
	w := leadingWord(rest[1:])
	return rest[0] == ' ' && (saysWhatIsWrong(w) || strings.IndexAny(rest[1+len(w):], "=:") == 0)
}
