package app

import (
	"net/url"
	"regexp"
	"strings"
)

// mask stands for a password.
const mask = "***"

var (
	// userPassword matches what stands before the last @ of a URL's word, so that
	// a password that holds @ or / is found, too.
	userPassword = regexp.MustCompile(`(://[^\s:/@"']*):([^\s"'<>]*)@`)
	// setPassword matches options such as ?password=… and password='…'.
	setPassword = regexp.MustCompile(`(?i)\b((?:[a-z_]*password|pwd|passfile|secret|token_file)\s*=\s*)('[^']*'|"[^"]*"|[^\s&'",]+)`)
)

// wholeURL matches the same in a text that is a URL and nothing else, also if its
// password holds a space.
var wholeURL = regexp.MustCompile(`(?s)(://[^:/@]*):(.*)@`)

// RedactURL returns a URL with the passwords in it masked: that of the user, and
// options that are named like one.
func RedactURL(s string) string { return redactText(wholeURL.ReplaceAllString(s, "$1:"+mask+"@")) }

// redactText masks passwords of URLs within a text.
func redactText(s string) string {
	s = userPassword.ReplaceAllString(s, "$1:"+mask+"@")
	return setPassword.ReplaceAllString(s, "${1}"+mask)
}

// Redactor masks passwords in whatever is printed, those of given store URLs
// also where they stand alone.
type Redactor struct{ secrets *strings.Replacer }

// NewRedactor returns a redactor that knows the passwords in urls.
func NewRedactor(urls ...string) *Redactor {
	var pairs []string
	for _, u := range urls {
		for _, secret := range passwords(u) {
			if len(secret) >= 3 { // a shorter one would mask half of every text
				pairs = append(pairs, secret, mask)
			}
		}
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// Redact returns s without passwords.
func (r *Redactor) Redact(s string) string { return redactText(r.secrets.Replace(s)) }

// passwords finds the passwords of a URL, as they stand in it and as they are
// meant, also if it cannot be read as a URL.
func passwords(s string) []string {
	var found []string
	add := func(raw string) {
		found = append(found, raw)
		if plain, err := url.QueryUnescape(strings.ReplaceAll(raw, "+", "%2B")); err == nil && plain != raw {
			found = append(found, plain)
		}
	}
	for _, m := range wholeURL.FindAllStringSubmatch(s, -1) {
		add(m[2])
	}
	for _, m := range setPassword.FindAllStringSubmatch(s, -1) {
		add(strings.Trim(m[2], `'"`))
	}
	return found
}
