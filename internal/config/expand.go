package config

import (
	"fmt"
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

// variable tells whether name can be that of a variable.
func variable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
