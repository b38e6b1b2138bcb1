package crawl

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
)

// The scopes of a crawl: which links are followed.
const (
	ScopeHost   = "host"   // the host and port of a seed
	ScopeDomain = "domain" // its registrable domain: example.co.uk and all below
	ScopePrefix = "prefix" // what begins like a seed up to its last slash
	ScopeAll    = "all"
)

// site names a host and its port; http and https on their own ports are one.
func site(u *url.URL) string {
	host := u.Hostname()
	if p := u.Port(); p != "" && p != "80" && p != "443" {
		return net.JoinHostPort(host, p)
	}
	return host
}

// realm names the registrable domain of a URL, and its port: its hosts are of one owner.
func realm(u *url.URL) string {
	return strings.Replace(site(u), u.Hostname(), domain(u.Hostname()), 1)
}

// scope returns which links are followed.
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
	return slices.ContainsFunc(seeds, func(seed *url.URL) bool {
		switch s.kind {
		case ScopeAll:
			return true
		case ScopeDomain:
			return domain(u.Hostname()) == domain(seed.Hostname())
		case ScopePrefix:
			at := seed.EscapedPath()
			return site(u) == site(seed) && strings.HasPrefix(u.EscapedPath(), at[:strings.LastIndexByte(at, '/')+1])
		}
		return site(u) == site(seed)
	})
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
