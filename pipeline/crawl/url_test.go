package crawl

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

func TestScope(t *testing.T) {
	seed, err := weburl.Parse(nil, "https://www.example.co.uk/docs/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for kind, links := range map[string]map[string]bool{
		ScopeHost: {"http://www.example.co.uk/": true, "https://www.example.co.uk:8443/": false,
			"https://example.co.uk/": false},
		ScopeDomain: {"http://a.b.example.co.uk/": true, "https://other.co.uk/": false},
		ScopePrefix: {"https://www.example.co.uk/docs/a/b": true, "https://www.example.co.uk/blog/": false},
		ScopeAll:    {"http://anything.example/": true},
	} {
		s := &scope{kind: kind, seeds: []*url.URL{seed}}
		for link, want := range links {
			u, err := weburl.Parse(nil, link)
			if err != nil || s.has(u) != want {
				t.Errorf("%s: %s is %v, want %v (%v)", kind, link, s.has(u), want, err)
			}
		}
	}
}

func TestPrivate(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "10.1.2.3": true, "192.168.0.1": true, "172.16.9.9": true, "169.254.169.254": true,
		"100.64.0.1": true, "0.0.0.0": true,
		"::1": true, "fe80::1": true, "fd00::1": true, "::ffff:10.0.0.1": true, "93.184.216.34": false,
		"2606:2800:220:1::1": false,
	} {
		if got := private(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
