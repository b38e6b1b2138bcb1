package config

import (
	"net/url"
	"regexp"
	"strings"
)

// userKind is what a ${…} stands for between the // and the @ of a URL.
type userKind uint8

const (
	noUser   userKind = iota // it stands somewhere else
	oneOfTwo                 // user, or password
	userPair                 // both, with the colon between them
)

var (
	// userBegins matches the last :// of what is before a ${…}, and user and
	// password as far as they are stated there.
	userBegins = regexp.MustCompile(`://([^/?#@]*)$`)
	// userEnds matches what is behind it, up to the @. Other ${…} may be between.
	userEnds = regexp.MustCompile(`^((?:[^/?#@$]|\$\{[^}]*\}|\$)*)@`)
	// innerURL matches the option that has the URL of another store.
	innerURL = regexp.MustCompile(`[?&](?:relay|fallback)=[a-z]+://[^/?#@]*$`)
	// escapedUser matches what can only be escaped already, if there is a % in it.
	escapedUser = regexp.MustCompile(`^(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*$`)
)

// userPart tells which part of user and password a ${…} is, by what the file states
// before and behind it, and how often it is unescaped after the URL has been read:
// the URL of another store is an option of the first.
func userPart(before, after string) (part userKind, depth int) {
	begins, ends := userBegins.FindStringSubmatch(before), userEnds.FindStringSubmatch(after)
	if begins == nil || ends == nil {
		return noUser, 0
	}
	if innerURL.MatchString(before) {
		depth = 1
	}
	if begins[1] == "" && ends[1] == "" {
		return userPair, depth
	}
	return oneOfTwo, depth
}

// escapeUser escapes what is put into user or password. What holds a %, and is valid
// as it is, was escaped by who wrote it, and stays.
func escapeUser(s string, part userKind, depth int) string {
	if strings.Contains(s, "%") && escapedUser.MatchString(s) {
		return s
	}
	if part == userPair {
		if user, password, both := strings.Cut(s, ":"); both {
			return escapeUser(user, oneOfTwo, depth) + ":" + escapeUser(password, oneOfTwo, depth)
		}
	}
	for range depth + 1 {
		s = strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	}
	return s
}
