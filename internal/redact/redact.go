package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// mask stands for a password.
const mask = "***"

var (
	// barePassword matches user:password@ where no scheme is before it.
	barePassword = regexp.MustCompile(`^((?:[a-z]+:)?[^\s:/@"']+):([^\s/"'<>@]+)@`)
	// credentials matches what follows the scheme in an Authorization header.
	credentials = regexp.MustCompile(`(?i)(authorization\s*:\s*(?:[a-z]+\s+)?)[^\s'"]+`)
	// secretOption matches --password X, -H 'X-Api-Key: X', PASSWORD=X and such.
	secretOption = regexp.MustCompile(
		`(?i)([a-z0-9_-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[a-z0-9_-]*(?:\s*[=:]\s*|\s+))(?:'[^']*'|"[^"]*"|[^\s'"]+)`)
	// setPassword matches options such as ?password=… and password='…'.
	setPassword = regexp.MustCompile(
		`(?i)\b((?:[a-z_]*password|pwd|[a-z_]*secret|[a-z_]*api_?key|access_token|token)\s*=\s*)('[^']*'|"[^"]*"|[^\s&'",]+)`)
)

// URL returns a URL with the passwords in it masked: that of the user, and
// options that are named like one.
func URL(s string) string {
	if !strings.Contains(s, "://") {
		s = barePassword.ReplaceAllString(s, "$1:"+mask+"@")
	}
	masked, _ := maskURL(s)
	return masked
}

// redactText masks passwords of URLs within a text.
func redactText(s string) string {
	if strings.Contains(s, "://") {
		s = urlWord.ReplaceAllStringFunc(s, func(word string) string {
			masked, _ := maskURL(word)
			return masked
		})
	}
	return maskOptions(s)
}

// Redactor masks passwords in whatever is printed, those of given store URLs
// also where they stand alone. It is safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	known   []string
	secrets atomic.Pointer[[]string] // the longest first
}

// New returns a redactor that knows the passwords in urls.
func New(urls ...string) *Redactor {
	r := &Redactor{}
	r.LearnURLs(urls...)
	return r
}

// LearnURLs adds the passwords in urls.
func (r *Redactor) LearnURLs(urls ...string) {
	var found []string
	for _, u := range urls {
		found = append(found, Passwords(u)...)
	}
	r.learn(3, found)
}

// ownName is in half of what is printed: to mask it would hide the next step, and
// tell the password.
const ownName = "pawl"

// Learn adds what else is secret. What is shorter than 6 bytes would mask half of
// every text, and is left.
func (r *Redactor) Learn(secrets ...string) { r.learn(6, secrets) }

func (r *Redactor) learn(least int, secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		if len(s) >= least && s != ownName && !slices.Contains(r.known, s) {
			r.known = append(r.known, s)
		}
	}
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) }) // what contains another one first
	r.secrets.Store(new(slices.Clone(r.known)))
}

// maskWords masks secret in s wherever it is not a part of a longer word: "***" in the middle of a word that can be
// guessed would tell a password that is an ordinary word.
func maskWords(s, secret string) string {
	var b strings.Builder
	from := 0
	for {
		i := strings.Index(s[from:], secret)
		if i < 0 {
			break
		}
		i += from
		end := i + len(secret)
		if joins(s[:i], secret) || joins(secret, s[end:]) {
			_, size := utf8.DecodeRuneInString(s[i:])
			b.WriteString(s[from : i+size])
			from = i + size
			continue
		}
		b.WriteString(s[from:i] + mask)
		from = end
	}
	if from == 0 {
		return s
	}
	return b.String() + s[from:]
}

// joins reports whether a word goes on from the end of a into b.
func joins(a, b string) bool {
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	return inWord(last) && inWord(first)
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// Redact returns s without passwords.
func (r *Redactor) Redact(s string) string {
	for _, secret := range *r.secrets.Load() {
		s = maskWords(s, secret)
	}
	return redactText(s)
}

// Command masks what looks like a secret in the command line of a program: passwords of URLs, options and variables
// that are named like a secret, and credentials of an Authorization header.
func Command(s string) string {
	s = credentials.ReplaceAllString(s, "$1"+mask)
	s = secretOption.ReplaceAllString(s, "$1"+mask)
	return redactText(s)
}

// Passwords finds the passwords of a URL, as they stand in it and as they are
// meant, also if it cannot be read as a URL.
func Passwords(s string) []string {
	var found []string
	_, secrets := maskURL(s)
	for _, secret := range secrets {
		found = append(found, spellings(secret)...)
	}
	return found
}
