package crawl

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// The scopes of a crawl: which links are followed.
const (
	ScopeHost   = "host"   // the host and port of a seed
	ScopeDomain = "domain" // its registrable domain: example.co.uk and all below
	ScopePrefix = "prefix" // what begins like a seed up to its last slash
	ScopeAll    = "all"
)

// canonical parses a URL and gives it the one form under which a page is known: scheme and host in lower case, no
// default port, no fragment, a path without dot segments, and percent-encoding only where it is needed, in upper
// case. The query stays as it is: servers tell ?a=&b= from ?b=&a=.
func canonical(base *url.URL, ref string) (*url.URL, error) {
	u, err := url.Parse(strings.Trim(ref, " \t\r\n\f"))
	if err != nil {
		return nil, err
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is no http or https URL", ref)
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	u.Host = host
	if port := (&url.URL{Host: hostOf(ref, base)}).Port(); port != "" &&
		port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		u.Host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	u = u.ResolveReference(&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}) // without dot segments
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawPath = normalEscapes(u.EscapedPath())
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, err
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, " ", "%20")
	return u, nil
}

// hostOf is the host of a reference as it is written.
func hostOf(ref string, base *url.URL) string {
	u, err := url.Parse(strings.Trim(ref, " \t\r\n\f"))
	if err != nil || u.Host == "" && base == nil {
		return ""
	}
	if u.Host == "" {
		return base.Host
	}
	return u.Host
}

func asciiHost(host string) (string, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Is6() {
			return "[" + ip.String() + "]", nil
		}
		return ip.String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil && strings.ContainsRune(host, '_') {
		return host, nil // no name of the standard, and in use all the same
	}
	return ascii, err
}

// normalEscapes writes escapes in upper case, and unreserved characters plainly.
func normalEscapes(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b.WriteByte(path[i])
			continue
		}
		c, ok := unhex(path[i+1], path[i+2])
		switch {
		case !ok:
			b.WriteString("%25")
			continue
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
		i += 2
	}
	return b.String()
}

func unhex(a, b byte) (byte, bool) {
	digit := func(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
	x, y := digit(a), digit(b)
	return byte(x<<4 | y), x >= 0 && y >= 0
}

// site names a host and its port; http and https on their own ports are one.
func site(u *url.URL) string {
	host := u.Hostname()
	if p := u.Port(); p != "" && p != "80" && p != "443" {
		return net.JoinHostPort(host, p)
	}
	return host
}

// scope tells which links are followed.
type scope struct {
	kind string

	mu    sync.RWMutex
	seeds []*url.URL
}

// add makes u a seed, too.
func (s *scope) add(u *url.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds = append(slices.Clip(s.seeds), u)
}

func (s *scope) has(u *url.URL) bool {
	s.mu.RLock()
	seeds := s.seeds
	s.mu.RUnlock()
	for _, seed := range seeds {
		switch s.kind {
		case ScopeAll:
			return true
		case ScopeDomain:
			if domain(u.Hostname()) == domain(seed.Hostname()) {
				return true
			}
		case ScopePrefix:
			at := seed.EscapedPath()
			if site(u) == site(seed) && strings.HasPrefix(u.EscapedPath(), at[:strings.LastIndexByte(at, '/')+1]) {
				return true
			}
		default:
			if site(u) == site(seed) {
				return true
			}
		}
	}
	return false
}

// domain is the registrable domain of a host, or the host where there is none.
func domain(host string) string {
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil && net.ParseIP(host) == nil {
		return d
	}
	return host
}

// errPrivate is why a connection is refused.
var errPrivate = errors.New("the address is private; --allow-private allows it")

// private tells addresses that are not of the public internet.
func private(ip netip.Addr) bool {
	ip = ip.Unmap()
	return !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() ||
		sharedSpace.Contains(ip) || benchmarks.Contains(ip)
}

var (
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	benchmarks  = netip.MustParsePrefix("198.18.0.0/15") // RFC 2544
)
