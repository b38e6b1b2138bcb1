package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The name of a store may be any text, also one that is not a URL: a password with a ?
// or a / in it that is not escaped. What stands between the first colon behind the
// // and the last @ is secret then, whatever it looks like. Only the URL of another
// store within a URL is told apart.
var (
	// nestedURL matches the option that has the URL of another store.
	nestedURL = regexp.MustCompile(`(?i)(?:^|[?&])(?:relay|fallback)=[a-z]+(?::|%3a)`)
	// justHosts matches what has no user and no password.
	justHosts = regexp.MustCompile(`^(?:[^:\[\]@]*|\[[^\]@]*\])(?::\d*)?(?:,(?:[^:\[\]@,]*|\[[^\]@,]*\])(?::\d*)?)*$`)
	// urlWord matches a URL in a text.
	urlWord = regexp.MustCompile(`[A-Za-z0-9+.-]*://[^\s"'<>]*`)
	// pieceEnd is where a URL that is read wrongly is taken apart.
	pieceEnd = regexp.MustCompile(`[\s?&=@/:#,;"'\x60\[\]]+`)
)

// maskURL masks the secrets of a URL, and returns them as they stand there.
func maskURL(s string) (masked string, secrets []string) {
	head, option, rest := cutNested(s)
	if option == "" {
		return maskPlain(s)
	}
	masked, secrets = maskPlain(head)
	value, tail, more := rest, "", false
	// it is escaped, and so ends at the next &
	if colon := strings.IndexAny(rest, ":%"); colon >= 0 && rest[colon] == '%' {
		value, tail, more = strings.Cut(rest, "&")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
	}
	inner, found := maskURL(value)
	masked, secrets = masked+option+inner, append(secrets, found...)
	if more {
		inner, found = maskURL(tail)
		masked, secrets = masked+"&"+inner, append(secrets, found...)
	}
	return masked, secrets
}

// cutNested cuts s before and behind the name of an option that has a URL. If what
// is before it may end within a password, it is none.
func cutNested(s string) (head, option, rest string) {
	for _, at := range nestedURL.FindAllStringIndex(s, -1) {
		if head = s[:at[0]]; !complete(head) && !strings.Contains(head, "@") {
			continue
		}
		name, _, _ := strings.Cut(s[at[0]:], "=")
		return head, name + "=", s[at[0]+len(name)+1:]
	}
	return s, "", ""
}

// complete tells that the beginning of a URL has no user and no password, nor a
// part of one.
func complete(head string) bool {
	_, hosts, _ := strings.Cut(head, "://")
	if i := strings.IndexAny(hosts, "/?"); i >= 0 {
		hosts = hosts[:i]
	}
	return justHosts.MatchString(hosts) && !strings.Contains(head, "@")
}

// maskPlain masks the password of a user, and options that are named like one.
func maskPlain(s string) (masked string, secrets []string) {
	options := setPassword.FindAllStringSubmatchIndex(s, -1)
	for _, m := range options {
		secrets = append(secrets, strings.Trim(s[m[4]:m[5]], `'"`))
	}
	scheme := strings.Index(s, "://")
	last := strings.LastIndexByte(s, '@')
	if scheme < 0 || last < scheme+3 {
		return maskOptions(s), secrets
	}
	colon := strings.IndexByte(s[scheme+3:last], ':')
	if colon < 0 {
		return maskOptions(s), secrets
	}
	first, end := scheme+3+colon+1, last
	for _, m := range options {
		if m[0] <= last && last < m[1] {
			end = m[1] // one of both has it, and nobody can tell which
		}
	}
	return s[:first] + mask + maskOptions(s[end:]), append(secrets, s[first:last])
}

func maskOptions(s string) string {
	if !setsSecret(s) {
		return s
	}
	return setPassword.ReplaceAllString(s, "${1}"+mask)
}

// secretWords are how the names end that setPassword is about.
var secretWords = []string{"password", "pwd", "secret", "apikey", "api_key", "token"}

// setsSecret reports whether setPassword may match: every line of a log is looked at, and few have one.
func setsSecret(s string) bool {
	for rest := s; ; {
		at := strings.IndexByte(rest, '=')
		if at < 0 {
			return false
		}
		name := strings.TrimRight(rest[:at], " \t\n\f\r")
		for _, word := range secretWords {
			if from := len(name) - len(word); from >= 0 && strings.EqualFold(name[from:], word) {
				return true
			}
		}
		rest = rest[at+1:]
	}
}

// spellings are a secret as it stands in a URL, as it is meant, and if it is read
// wrongly the pieces of it that an error may quote.
func spellings(secret string) []string {
	all := []string{secret}
	if pieces := pieceEnd.Split(secret, -1); len(pieces) > 1 {
		all = append(all, pieces...)
	}
	for _, s := range slices.Clone(all) {
		all = append(all, url.QueryEscape(s))
		for _, text := range []string{s, strings.ReplaceAll(s, "+", "%2B")} {
			if plain, err := url.QueryUnescape(text); err == nil {
				all = append(all, plain)
			}
		}
	}
	return all
}
