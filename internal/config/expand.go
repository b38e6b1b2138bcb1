package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Mask stands for a secret in whatever is shown.
const Mask = "***"

// maxSecretFile bounds what ${file:…} reads.
const maxSecretFile = 64 << 10

// expanded is a text with what ${…} stood for put in.
type expanded struct {
	value   string
	shown   string   // the same, with what came from elsewhere masked
	secrets []string // what that was
}

// expand puts in ${NAME}, ${NAME:default} and ${file:PATH}; $${ is a plain ${. In a
// URL, what becomes a part of user or password is escaped.
func (s *Source) expand(t string, isURL bool) (e expanded, why, hint string) {
	var value, shown, stated strings.Builder // stated: what the file itself says
	both := func(text string) {
		value.WriteString(text)
		shown.WriteString(text)
		stated.WriteString(text)
	}
	for {
		before, rest, found := strings.Cut(t, "${")
		if !found {
			both(t)
			break
		}
		if strings.HasSuffix(before, "$") {
			both(before[:len(before)-1] + "${")
			t = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return e, "holds a ${ without a }", "write $${ for a plain ${"
		}
		both(before)
		secret, plain, why, hint := s.reference(name)
		if why != "" {
			return e, why, hint
		}
		if secret != "" {
			e.secrets = append(e.secrets, secret)
		}
		if part, depth := userPart(stated.String(), after); isURL && part != noUser {
			secret, plain = escapeUser(secret, part, depth), escapeUser(plain, part, depth)
			if secret != "" && secret != e.secrets[len(e.secrets)-1] {
				e.secrets = append(e.secrets, secret)
			}
		}
		value.WriteString(secret + plain)
		shown.WriteString(plain)
		if secret != "" {
			shown.WriteString(Mask)
		}
		t = after
	}
	e.value, e.shown = value.String(), shown.String()
	return e, "", ""
}

// reference is what stands for ${name}: a secret, or a default that the file
// states plainly.
func (s *Source) reference(name string) (secret, plain, why, hint string) {
	name, def, hasDefault := strings.Cut(name, ":")
	if name == "file" && hasDefault {
		return s.secretFile(def)
	}
	if !variable(name) {
		return "", "", fmt.Sprintf("holds ${%s}, which is not ${NAME}, ${NAME:default} or ${file:PATH}", name),
			"write $${ for a plain ${"
	}
	if v := s.getenv(name); v != "" {
		return v, "", "", ""
	}
	if hasDefault {
		return "", def, "", ""
	}
	return "", "", fmt.Sprintf("%s is not set in the environment", name),
		fmt.Sprintf("set it, or write ${%s:default}", name)
}

func (s *Source) secretFile(path string) (secret, plain, why, hint string) {
	b, err := s.read(path)
	switch {
	case err != nil:
		return "", "", fmt.Sprintf("cannot be read from its file: %v", err), ""
	case len(b) > maxSecretFile:
		return "", "", fmt.Sprintf("file %s holds more than %d bytes", path, maxSecretFile), ""
	case !utf8.Valid(b):
		return "", "", fmt.Sprintf("file %s is not text", path), ""
	}
	secret = strings.TrimRight(string(b), "\r\n")
	if secret == "" {
		return "", "", fmt.Sprintf("file %s is empty", path), ""
	}
	return secret, "", "", ""
}

// variable reports whether name can be that of a variable.
func variable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

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

// userPart returns which part of user and password a ${…} is, by what the file states
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
