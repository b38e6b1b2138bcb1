// Package robotstxt reads robots.txt by RFC 9309.
package robotstxt

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

// MaxText is how much of a robots.txt counts (RFC 9309, section 2.5).
const MaxText = 500 << 10

// inPattern are the characters of a path with its query that mean something else when they are escaped. Patterns and
// URLs are compared with the same escapes.
const inPattern = weburl.InPath + "?"

// Rules are those of a robots.txt for one product token. Without any, everything is allowed.
type Rules struct {
	Delay    time.Duration // Crawl-delay; 0: none
	Sitemaps []string      // of all groups
	rules    []rule
}

type rule struct {
	pattern string
	allow   bool
}

// Parse reads the group of a product token, or that of *, by RFC 9309. Groups of one token are joined.
func Parse(text []byte, product string) *Rules {
	text = bytes.TrimPrefix(text[:min(len(text), MaxText)], []byte("\uFEFF"))
	mine, all := &Rules{}, &Rules{}
	found := false
	var agents []string
	open := true // user-agent lines that follow one another are one group
	var sitemaps []string
	product = strings.ToLower(product)
	for line := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch key {
		case "user-agent":
			if !open {
				agents, open = nil, true
			}
			if value != "*" {
				value = strings.ToLower(Product(value)) // Pawl/2.0 names Pawl
			}
			agents = append(agents, value)
			found = found || value != "" && value == product // one without rules allows everything
			continue
		case "sitemap":
			sitemaps = append(sitemaps, value)
			continue
		case "allow", "disallow", "crawl-delay":
			open = false
		default:
			continue
		}
		for _, agent := range agents {
			switch agent {
			case "*":
				all.add(key, value)
			case product:
				mine.add(key, value)
			}
		}
	}
	if !found {
		mine = all
	}
	mine.Sitemaps = sitemaps
	return mine
}

func (r *Rules) add(key, value string) {
	switch {
	case key == "crawl-delay":
		if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
			r.Delay = time.Duration(min(s, 1e6) * float64(time.Second))
		}
	case value != "": // an empty pattern matches nothing
		r.rules = append(r.rules, rule{weburl.Escapes(value, inPattern), key == "allow"})
	}
}

// Allows reports whether a URL may be asked for: the longest pattern that matches counts, and allow where two are as
// long.
func (r *Rules) Allows(u *url.URL) bool {
	path := weburl.Escapes(u.RequestURI(), inPattern)
	best, allowed := -1, true
	for _, rule := range r.rules {
		if n := len(rule.pattern); n >= best && match(rule.pattern, path) {
			if n > best || rule.allow {
				allowed = rule.allow
			}
			best = n
		}
	}
	return allowed
}

// match matches a pattern with * for anything and $ at its end. It takes no more than their lengths multiplied.
func match(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(path, parts[0]) {
		return false
	}
	path = path[len(parts[0]):]
	for i, part := range parts[1:] {
		if whole && i == len(parts)-2 {
			return strings.HasSuffix(path, part)
		}
		at := strings.Index(path, part)
		if at < 0 {
			return false
		}
		path = path[at+len(part):]
	}
	return !whole || path == ""
}

// Product is the part of a User-Agent that robots.txt knows it by.
func Product(userAgent string) string {
	end := strings.IndexFunc(userAgent, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '_')
	})
	if end < 0 {
		return userAgent
	}
	return userAgent[:end]
}
