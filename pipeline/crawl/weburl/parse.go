// Package weburl reads URLs as browsers do, by the URL standard of the WHATWG, and writes each in one form.
package weburl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Parse reads an http or https URL, relative to base unless that is nil, and gives it the one form under which its page
// is known: docs/pipelines/crawl.md tells where that form differs from a browser's.
func Parse(base *url.URL, ref string) (*url.URL, error) {
	text := strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(text, "\t\n\r") {
		text = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
	}
	text, _, _ = strings.Cut(text, "#")
	rest, query, hasQuery := strings.Cut(text, "?")
	rest = strings.ReplaceAll(rest, `\`, "/")

	scheme, rest := cutScheme(rest)
	relative := base != nil && (scheme == "" || scheme == base.Scheme && !strings.HasPrefix(rest, "//"))
	if scheme == "" && base != nil {
		scheme = base.Scheme
	}
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%q is no http or https URL", ref)
	}
	var host, path string
	switch {
	case relative && !strings.HasPrefix(rest, "//"):
		host, path = base.Host, rest
		if rest == "" {
			path = base.EscapedPath()
			if !hasQuery {
				query = base.RawQuery
			}
		} else if rest[0] != '/' {
			at := base.EscapedPath()
			path = at[:strings.LastIndexByte(at, '/')+1] + rest
		}
	default:
		authority, after, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		var err error
		if host, err = canonicalHost(scheme, authority); err != nil {
			return nil, fmt.Errorf("%q: %w", ref, err)
		}
		path = "/" + after
	}
	text = scheme + "://" + host + withoutDots(Escapes(path, InPath))
	if query != "" {
		text += "?" + escapeQuery(query)
	}
	return url.Parse(text)
}

// cutScheme returns the scheme of a URL in lower case, if it has one, and what follows.
func cutScheme(text string) (scheme, rest string) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || scheme == "" {
		return "", text
	}
	scheme = strings.ToLower(scheme)
	for i := range len(scheme) {
		letter := 'a' <= scheme[i] && scheme[i] <= 'z'
		if !letter && (i == 0 || strings.IndexByte("0123456789+-.", scheme[i]) < 0) {
			return "", text
		}
	}
	return scheme, rest
}

// canonicalHost is the host and, where it is not the scheme's own, the port of an authority. User and password are
// dropped.
func canonicalHost(scheme, authority string) (string, error) {
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	host, port := authority, ""
	if at := strings.LastIndexByte(authority, ':'); at > strings.LastIndexByte(authority, ']') {
		host, port = authority[:at], authority[at+1:]
	}
	host, err := asciiHost(host)
	if err != nil {
		return "", err
	}
	if port == "" {
		return host, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is no port", port)
	}
	if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return host, nil
	}
	return host + ":" + strconv.FormatUint(n, 10), nil
}

// names maps the names of hosts as browsers do: more is allowed than in the names of domains, such as underscores.
func names() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false),
		idna.CheckHyphens(false), idna.VerifyDNSLength(false))
}

func asciiHost(host string) (string, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !ok || err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", fmt.Errorf("%q is no address", host)
		}
		return "[" + ip.String() + "]", nil
	}
	ascii := strings.ToLower(host)
	if strings.Contains(ascii, "xn--") || strings.ContainsFunc(ascii, mapped) {
		var err error
		if host = unescape(host); !utf8.ValidString(host) {
			return "", fmt.Errorf("%q is no host", host)
		}
		if ascii, err = names().ToASCII(host); err != nil {
			return "", err
		}
	}
	ascii = strings.TrimSuffix(ascii, ".")
	if ascii == "" {
		return "", errors.New("there is no host")
	}
	labels := strings.Split(ascii, ".")
	if slices.Contains(labels, "") {
		return "", fmt.Errorf("%q is no host: two dots have nothing between them", host)
	}
	for i := range len(ascii) {
		if ascii[i] <= ' ' || ascii[i] >= 0x7f || strings.IndexByte("#/:<>?@[\\]^|%", ascii[i]) >= 0 {
			return "", fmt.Errorf("%q is no host", host)
		}
	}
	last := labels[len(labels)-1]
	if _, err := number(last); err == nil || errors.Is(err, strconv.ErrRange) ||
		strings.Trim(last, "0123456789") == "" {
		return address(labels)
	}
	return ascii, nil
}

// mapped tells characters that the names of hosts are mapped for.
func mapped(r rune) bool { return r == '%' || r > unicode.MaxASCII }

// number reads a part of an IPv4 address: decimal, octal with a leading 0, hexadecimal with 0x.
func number(label string) (uint64, error) {
	digits, base := label, 10
	switch {
	case strings.HasPrefix(label, "0x"):
		if digits, base = label[2:], 16; digits == "" {
			return 0, nil
		}
	case len(label) > 1 && label[0] == '0':
		digits, base = label[1:], 8
	}
	return strconv.ParseUint(digits, base, 64)
}

// address is an IPv4 address in any of the forms that browsers take: 127.1 and 0x7f000001 are 127.0.0.1.
func address(labels []string) (string, error) {
	refuse := fmt.Errorf("%q is no address", strings.Join(labels, "."))
	if len(labels) > 4 {
		return "", refuse
	}
	var all uint64
	for i, label := range labels {
		n, err := number(label)
		room := 1 // bytes that this part may fill: the last one fills what is left
		if i == len(labels)-1 {
			room = 5 - len(labels)
		}
		if err != nil || n >= 1<<(8*room) {
			return "", refuse
		}
		all = all<<(8*room) | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}).String(), nil
}

// withoutDots is an absolute path without the segments . and ..
func withoutDots(path string) string {
	path = strings.TrimPrefix(path, "/")
	if path == "" || path[0] != '.' && !strings.Contains(path, "/.") {
		return "/" + path
	}
	segments := strings.Split(path, "/")
	kept := []string{}
	for i, segment := range segments {
		switch segment {
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		case ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// InPath are the characters of a path that mean something else when they are escaped.
const InPath = "!$&'()*+,;=:@/[]"

// Escapes writes escapes in upper case, unreserved characters plainly, and escapes what is neither unreserved nor one
// of plain, such as a % without its digits.
func Escapes(text, plain string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, escaped := text[i], false
		if c == '%' && i+2 < len(text) {
			if d, ok := unhex(text[i+1], text[i+2]); ok {
				c, escaped, i = d, true, i+2
			}
		}
		switch {
		case unreserved(c), !escaped && strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// escapeQuery escapes spaces, controls, quotes, angle brackets and what is not ASCII.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c > ' ' && c < 0x7f && strings.IndexByte(`"<>'`, c) < 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape resolves the escapes that are whole, and leaves the rest.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, ok := unhex(text[i+1], text[i+2]); ok {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func unhex(a, b byte) (byte, bool) {
	digit := func(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
	x, y := digit(a), digit(b)
	return byte(x<<4 | y), x >= 0 && y >= 0
}
