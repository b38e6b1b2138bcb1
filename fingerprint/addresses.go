package fingerprint

import "strings"

// This file knows what places look like: URLs, hosts and files, and what stands
// behind a key. Each returns the place behind the thing, or 0 if there is none.

// runEnd is the place behind a URL or a path that begins at from: up to what no
// such thing has, a bracket that it did not open, or what punctuates the text.
func (a *alike) runEnd(from int, stop string) int {
	end, depth, opened := from, 0, 0
loop:
	for ; end < len(a.in) && end-from < farAhead; end++ {
		switch c := a.in[end]; {
		case c <= ' ' || strings.IndexByte(stop, c) >= 0:
			break loop
		case c == '(' || c == '[' || c == '{':
			if depth++; depth == 1 {
				opened = end
			}
		case c == ')' || c == ']' || c == '}':
			if depth--; depth < 0 {
				break loop
			}
		case (c == ',' || c == ';') && a.parts(end+1):
			break loop
		}
	}
	if depth > 0 {
		end = opened
	}
	for end > from && strings.IndexByte(".:,;!?-", a.in[end-1]) >= 0 {
		end--
	}
	return end
}

// parts tells whether the text goes on at at with something else.
func (a *alike) parts(at int) bool {
	end := span(a.in, at, 64, "_")
	return end == len(a.in) || end == at && a.in[at] != '/' || a.in[end] == '=' ||
		a.in[end] == ':' && end+1 < len(a.in) && a.in[end+1] > ' '
}

// url is a URL as a whole, or a name of Amazon's.
func (a *alike) url() int {
	at := span(a.in, a.at, 24, "+.-")
	if rest := a.in[at:]; strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, ":") && a.in[a.at:at] == "arn" {
		return max(a.runEnd(at+1, "\"'`<>|\\"), at+len(":"))
	}
	return 0
}

const endsPath = "\"'`<>|:"

// path is a path that begins with what only paths begin with.
func (a *alike) path(c byte) int {
	if b := a.before(); isWord(b) || strings.IndexByte(".)]/\\<*~", b) >= 0 {
		return 0
	}
	rest := a.in[a.at:]
	n := 0
	switch c {
	case '/':
		n = a.skip(a.at, "/") - a.at
	case '\\':
		if n = a.skip(a.at, "\\") - a.at; n < 2 || n == 3 {
			return 0
		}
	case '~':
		if strings.HasPrefix(rest, "~/") {
			n = 2
		}
	case '.':
		if n = a.skip(a.at, ".") - a.at; n > 2 || n == len(rest) || rest[n] != '/' && rest[n] != '\\' {
			return 0
		}
		n++
	case '$':
		n = span(rest, 1, 31, "_{}")
		if n == len(rest) || rest[n] != '/' || isDigit(rest[1]) {
			return 0
		}
		n++
	}
	if n == 0 || n >= len(rest) || !isWord(rest[n]) && strings.IndexByte("._-@~%+{[", rest[n]) < 0 {
		return 0
	}
	if c == '\\' {
		if end := a.windows(a.at + n); strings.IndexByte(a.in[a.at+n:end], '\\') >= 0 {
			return end
		}
		return 0
	}
	return max(a.runEnd(a.at+n, endsPath), a.at+n)
}

// drive is a path of Windows with the letter of its drive.
func (a *alike) drive() int {
	if rest := a.in[a.at:]; len(rest) < 4 || rest[1] != ':' || isDigit(rest[0]) ||
		rest[2] != '\\' && (rest[2] != '/' || rest[3] == '/') {
		return 0
	}
	return a.windows(a.at + 3)
}

// windows ends a path of Windows, where a folder may have spaces in its name.
func (a *alike) windows(from int) int {
	end := a.runEnd(from, endsPath)
	for range 4 {
		if end >= len(a.in) || a.in[end] != ' ' || isFile(a.in[from:end]) {
			break
		}
		more := a.folder(end + 1)
		if more == 0 {
			break
		}
		from, end = more, a.runEnd(more, endsPath)
	}
	return end
}

// folder passes over the rest of the name of a folder, of up to two words.
func (a *alike) folder(at int) int {
	words := 1
	for ; at < len(a.in) && a.in[at] != '\\'; at++ {
		if c := a.in[at]; c == ' ' {
			if words++; words > 2 {
				return 0
			}
		} else if !isWord(c) && strings.IndexByte("()_-.&", c) < 0 {
			return 0
		}
	}
	if at+1 >= len(a.in) || a.in[at+1] == '\\' || a.before() == ' ' && a.in[at-1] == ' ' {
		return 0
	}
	return at
}

// relative is a path without a beginning of its own: behind a word such as open,
// with the ending of a file, or with two slashes.
func (a *alike) relative() int {
	end := a.runEnd(a.at, endsPath+"(")
	p := a.in[a.at:end]
	slashes := strings.Count(p, "/")
	first, _, _ := strings.Cut(p, "/")
	opened := a.lastEnd == a.at-1 && opensFile(a.last)
	switch {
	case slashes == 0:
		if opened && strings.HasPrefix(a.in[end:], ": ") && isFile(p) {
			return end
		}
		return 0
	case strings.Contains(first, "=") || isMedia(first) || isForge(first) || strings.HasPrefix(first, "HTTP"):
		return 0
	case opened || isFile(p[strings.LastIndexByte(p, '/')+1:]):
		return end
	case slashes > 1 && a.before() != ':' && p != strings.ToUpper(p):
		return end
	case slashes > 0 && isDomain(first):
		return end
	}
	return 0
}

// isFile tells names that have the ending of a file.
func isFile(name string) bool {
	ending := name[strings.LastIndexByte(name, '.')+1:]
	if len(ending) == len(name) || len(ending) > len("parquet") || ending == "" {
		return false
	}
	if isLongEnding(ending) {
		return true
	}
	letters := 0
	for i := range len(ending) {
		if c := ending[i]; !isWord(c) || c >= 0x80 {
			return false
		} else if !isDigit(c) {
			letters++
		}
	}
	return letters > 0 && len(ending) <= 5 && (ending == strings.ToLower(ending) || ending == strings.ToUpper(ending))
}

var isLongEnding = among(`jsonl ndjson parquet xhtml proto class swift conf lock`)

// opensFile tells words in front of a path.
var opensFile = inAnyCase(`
	open stat lstat fstat mkdir unlink unlinkat rename chdir chmod chown opendir readdir scandir rmdir remove
	file path directory dir folder readlink symlink truncate utime openat`)

// isMedia tells the first words of types of media.
var isMedia = among(`application text image audio video multipart message font model`)

// isForge tells the hosts that paths of packages begin with.
var isForge = among(`
	github.com gitlab.com bitbucket.org golang.org google.golang.org gopkg.in go.uber.org k8s.io sigs.k8s.io
	modernc.org cloud.google.com go.opentelemetry.io go.etcd.io`)

// isDomain tells names of hosts by their last label.
func isDomain(name string) bool {
	last := strings.LastIndexByte(name, '.')
	if last < 1 || strings.ToLower(name) != name {
		return false
	}
	first, _, _ := strings.Cut(name, ".")
	top := name[last+1:]
	return plainDomains(top) ||
		!startsPackage(first) && (domains(top) || wordDomains(top) && strings.Count(name, ".") > 1)
}

var (
	plainDomains = among(`com org edu gov arpa localdomain`)
	domains      = among(`
		net mil int info biz io dev cloud app tech online site xyz local localhost internal svc lan home intranet
		corp cluster consul example test invalid onion eu de uk us fr nl ch cn jp ru au ca br se pl cz dk fi`)
	// wordDomains are words or endings of files, too.
	wordDomains = among(`it es at be ie in kr tw hk sg nz mx co ai me tv ua tr za gr pt`)
	// startsPackage tells the beginnings of packages of Java, and the like.
	startsPackage = among(`com org net io java javax jdk sun asp system self this de dev`)
)

// host is the name of a host, with its port. One without a port ends in a usual
// domain; one with a port has several labels, or is behind a word such as dial.
func (a *alike) host() int {
	end, labels := a.at, 1
	for ; end < len(a.in) && end-a.at < 254; end++ {
		c := a.in[end]
		if c == '.' && end+1 < len(a.in) && isWord(a.in[end+1]) {
			labels++
		} else if c != '-' && (!isWord(c) || isUpper(c) || c >= 0x80) {
			break
		}
	}
	name, next := a.in[a.at:end], byte(' ')
	if end < len(a.in) {
		next = a.in[end]
	}
	if isWord(next) || strings.IndexByte("($@\\_#=", next) >= 0 || next == '/' && isForge(name) {
		return 0
	}
	port := end
	if next == ':' {
		for port++; port < len(a.in) && port-end < 7 && isDigit(a.in[port]); port++ {
		}
		if port-end < 3 || port-end > 6 || port < len(a.in) && isWord(a.in[port]) {
			port = end // no port
		}
	}
	switch {
	case name == "localhost" || isDomain(name):
		return port
	case port == end:
		if rest := a.in[end:]; a.resolves() && (a.last != "lookup" || strings.HasPrefix(rest, ": no such host") ||
			strings.HasPrefix(rest, " on ")) {
			return end
		}
	case labels > 1 && !isFile(name) || a.before() == '[':
		return port
	case labels == 1 && dials(a.last) && a.lastEnd+1 == a.at:
		return port
	}
	return 0
}

// resolves tells whether the word before looks up the name of a host.
func (a *alike) resolves() bool {
	return a.lastEnd == a.at-1 && (a.last == "lookup" || a.last == "ENOTFOUND" || a.last == "AGAIN")
}

// dials tells words in front of an address.
var dials = inAnyCase(`
	tcp udp tcp4 tcp6 udp4 udp6 dial host to from at server broker node upstream peer addr address endpoint
	econnrefused econnreset etimedout via with`)

// isMAC tells an address of hardware, which may have no digit.
func isMAC(s string) bool {
	if len(s) != 17 || s[2] != ':' && s[2] != '-' {
		return false
	}
	for i := range len(s) {
		if i%3 == 2 && s[i] != s[2] || i%3 != 2 && !isHex(s[i]) {
			return false
		}
	}
	return true
}

// mac is an address of hardware with dashes.
func (a *alike) mac() int {
	end := a.at + 17
	if end > len(a.in) || end < len(a.in) && (isWord(a.in[end]) || a.in[end] == '-') || !isMAC(a.in[a.at:end]) {
		return 0
	}
	return end
}

// phone is a number of a telephone.
func (a *alike) phone(c byte) int {
	if a.at+1 >= len(a.in) || !isDigit(a.in[a.at+1]) || isWord(a.before()) {
		return 0
	}
	end, digits := 0, 0
	for at := a.at + 1; at < len(a.in) && at-a.at < 24; at++ {
		if isDigit(a.in[at]) {
			digits, end = digits+1, at+1
		} else if strings.IndexByte(" ().-", a.in[at]) < 0 {
			break
		}
	}
	if c == '(' && (digits != 10 || a.at+4 >= len(a.in) || a.in[a.at+4] != ')') || digits < 8 ||
		end < len(a.in) && isWord(a.in[end]) {
		return 0
	}
	return end
}

// keyed passes over the value behind a key that says who or which one it was.
func (a *alike) keyed(start int) {
	key := a.in[start:a.at]
	at, c := a.at+1, a.in[a.at]
	if c == ')' { // Key (email)=(bob@example.com) already exists
		if strings.HasPrefix(a.in[a.at:], ")=(") {
			a.at += len(")=")
			if end := a.until(a.at, ")"); end < len(a.in) {
				a.out, a.at = append(a.out, ')', '='), end+1
				a.vary()
			}
		}
		return
	}
	if !isIdentity(key) || c == ':' && strings.EqualFold(key, "key") || key == "name" && a.namesPart(start) {
		return
	}
	if at < len(a.in) && a.in[at] == '>' && c == '=' { // Ruby
		at++
	}
	for at < len(a.in) && at-a.at < 4 && a.in[at] == ' ' {
		at++
	}
	var end int
	switch {
	case at == len(a.in) || a.in[at] <= ' ' || strings.IndexByte("={[(:/\\", a.in[at]) >= 0 &&
		!(c == '=' && a.in[at] == '/'), c == '=' && a.in[at-1] == ' ' && a.in[at-2] == '=':
		return
	case isQuote(a.in[at]):
		b := alike{in: a.in, at: at}
		if end = b.shutsAt() + 1; end == 1 {
			return
		}
	case c == '=':
		end = a.runEnd(at, "\"'`|<>&")
	default:
		if end = a.runEnd(at, "\"'`|<>=:"); !a.isValue(at, end) {
			return
		}
	}
	if end > at {
		a.out = append(a.out, a.in[a.at:at]...)
		a.at = end
		a.vary()
	}
}

// namesPart tells the name of a column, and the like.
func (a *alike) namesPart(start int) bool {
	return start > 0 && (a.in[start-1] == '_' || a.in[start-1] == ' ') && isNaming(a.former)
}

// isValue tells whether what is behind a colon is a value, and not the beginning
// of what is wrong with it.
func (a *alike) isValue(at, end int) bool {
	v := a.in[at:end]
	if strings.ContainsAny(v, "0123456789@._-/") {
		return true
	}
	if isProse(v) {
		return false
	}
	if end == len(a.in) || strings.IndexByte(",;)]}", a.in[end]) >= 0 {
		return true
	}
	if a.in[end] != ' ' {
		return false
	}
	next := a.in[end+1 : a.until(end+1, " ,;:=.")]
	stop := end + 1 + len(next)
	return saysWhatIsWrong(next) || stop < len(a.in) && strings.IndexByte("=:", a.in[stop]) >= 0
}

// saysWhatIsWrong tells words behind a value.
var saysWhatIsWrong = among(`not is was has does already cannot failed exists`)
