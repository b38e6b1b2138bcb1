package crawl

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a site without end is given: how many pages in a row may be in one place, each reached from the one
// before, if none says anything new, how many if some do, how long a URL may be, how many segments its path may
// have, and how many years ahead a calendar goes.
const (
	maxAlike    = 2500
	maxNewAlike = 10_000
	maxURL      = 4096
	maxSegments = 64
	maxYears    = 5
)

// Reasons to leave out a link or a request.
const (
	whyFull     = "max-pages is reached"
	whyTaken    = "cancelled or discarded"
	whyScope    = "out of scope"
	whyPrivate  = "on a private network"
	whyDeep     = "deeper than depth"
	whyNoFollow = "its page says nofollow"
	whySame     = "its page has the content of one that led to it"
	whyText     = "its page has the text of others"
	whyStale    = "nothing new on the pages that lead to it"
	whyDull     = "nothing new on the host"
	whyIdle     = "nothing new from URLs of one place"
	whyAlike    = "too many URLs of one place in a row"

	whyRefreshed = "too many refreshes in a row"
)

// trap says why a URL is one of a site without end: of a calendar, or a link that is relative by mistake and grows with
// every step; "": it is not.
func trap(u *url.URL, alike, empty int) (why string) {
	path := u.EscapedPath()
	switch {
	case len(path)+len(u.RawQuery) > maxURL || strings.Count(path, "/") > maxSegments:
		return "the URL is too long"
	case alike > maxAlike && empty > maxAlike || alike > maxNewAlike:
		return whyAlike
	case repeats(path):
		return "the path repeats itself"
	}
	// a date that only one page links to is no calendar
	if m := month.FindStringSubmatch(u.RequestURI()); m != nil && alike > 0 {
		if year, _ := strconv.Atoi(m[1] + m[2]); year > time.Now().Year()+maxYears { // four digits
			return "a calendar years ahead"
		}
		if empty > maxEmpty {
			return "a calendar without anything new"
		}
	}
	return ""
}

// maxBodies is how many fingerprints of pages a request has with it: there are two of each page.
const maxBodies = 8

// again reports whether a page has the content of one that led to it, and adds its own content to theirs. Its links are
// those of the other then, or they are relative by mistake and grow with every step. A page that names its own path
// is compared without that, too.
func again(u *url.URL, body []byte, bodies []string) ([]string, bool) {
	if len(body) == 0 {
		return bodies, false
	}
	own := []string{fingerprint(body)}
	if path := u.EscapedPath(); len(path) > 3 { // a shorter one is in the tags
		own = append(own, fingerprint(bytes.ReplaceAll(body, []byte(path), nil)))
	}
	repeated := slices.ContainsFunc(own, func(f string) bool { return slices.Contains(bodies, f) })
	bodies = append(slices.Clone(bodies), own...)
	return bodies[max(len(bodies)-maxBodies, 0):], repeated
}

func fingerprint(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.RawStdEncoding.EncodeToString(sum[:9])
}

// month finds a year with a month: /2031/05, date=2031-05-17, year=2031.
var month = regexp.MustCompile(
	`(?:^|[^0-9])(?:([0-9]{4})[-/_](?:0[1-9]|1[0-2]|[1-9])(?:[^0-9]|$)|[?&]?y(?:ear)?=([0-9]{4})(?:[^0-9]|$))`)

// alike counts on where a link is in the place of its page.
func alike(page, link *url.URL, n int) int {
	if place(page) == place(link) {
		return n + 1
	}
	return 0
}

// place names the folder of a URL, or the program that its query is for, without numbers.
func place(u *url.URL) uint64 {
	path, program := u.EscapedPath(), "?"
	if u.RawQuery == "" {
		path, program = path[:strings.LastIndexByte(path, '/')+1], ""
	}
	var b strings.Builder
	b.WriteString(realm(u))
	for segment := range strings.SplitSeq(path, "/") {
		if strings.ContainsAny(segment, "0123456789") {
			segment = "0"
		}
		b.WriteString(segment + "/")
	}
	return hash64(b.String() + program)
}

func hash64(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// made reports whether a URL may be one of any number that its site makes up: it has a query, or a segment like an id.
func made(u *url.URL) bool {
	return u.RawQuery != "" || slices.ContainsFunc(strings.Split(u.Path, "/"), random)
}

// sessionNames are parameters that hold the id of a session, in lower case, and whether they may hold something else.
var sessionNames = map[string]bool{
	"jsessionid": false, "phpsessid": false, "aspsessionid": false, "cfid": false, "cftoken": false, "zenid": false,
	"oscsid": false, "sessionid": false, "session_id": false, "session-id": false, "sessid": false,
	"sid": true, "session": true,
}

// withoutSession writes a URL without the ids of sessions: one that its site makes up again for every visit would make
// every page a new one. Only the name of a page in the crawl is written so: it is asked for as its link says.
func withoutSession(u *url.URL) string {
	if u.RawQuery == "" && !strings.Contains(u.Path, ";") {
		return u.String()
	}
	v := *u
	if v.RawQuery != "" {
		v.RawQuery = dropSessions(v.RawQuery, "&")
	}
	if strings.Contains(v.Path, ";") {
		path := v.EscapedPath()
		segment := strings.LastIndexByte(path, '/') + 1
		v.RawPath = path[:segment] + dropSessions(path[segment:], ";")
		v.Path, _ = url.PathUnescape(v.RawPath) // it came out of EscapedPath
	}
	return v.String()
}

// dropSessions leaves out the parameters with ids of sessions.
func dropSessions(text, separator string) string {
	var kept []string
	for pair := range strings.SplitSeq(text, separator) {
		name, value, ok := strings.Cut(pair, "=")
		if ambiguous, known := sessionNames[strings.ToLower(name)]; ok && known && (!ambiguous || random(value)) {
			continue
		}
		kept = append(kept, pair)
	}
	return strings.Join(kept, separator)
}

// random tells an id that was made up from a number or a word.
func random(value string) bool {
	const digits, hex = "0123456789", "0123456789abcdefABCDEF"
	switch {
	case !strings.ContainsAny(value, digits):
		return false
	case len(value) >= 16:
		return true
	}
	return len(value) >= 8 && strings.Trim(value, hex) == "" && strings.Trim(value, digits) != ""
}
