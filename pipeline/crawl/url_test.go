package crawl

import (
	"net/netip"
	"net/url"
	"testing"
)

func TestCanonical(t *testing.T) {
	base, err := url.Parse("http://example.com/a/b?x=1")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"":                               "http://example.com/a/b?x=1",
		"HTTP://EXAMPLE.com:80":          "http://example.com/",
		"https://example.com:443/x":      "https://example.com/x",
		"http://example.com:8080/x#frag": "http://example.com:8080/x",
		"../c":                           "http://example.com/c",
		"/a/./b/../c":                    "http://example.com/a/c",
		"http://example.com/a/../../b":   "http://example.com/b",
		"c?q=a b":                        "http://example.com/a/c?q=a%20b",
		"/%7euser/%2fx/%c3%a9":           "http://example.com/~user/%2Fx/%C3%A9",
		"/é":                             "http://example.com/%C3%A9",
		"//other.example/":               "http://other.example/",
		"http://bücher.example/":         "http://xn--bcher-kva.example/",
		"http://user:pw@example.com/":    "http://example.com/",
		"http://[::1]:80/":               "http://[::1]/",
		"http://[::1]:81/":               "http://[::1]:81/",
		" /spaces ":                      "http://example.com/spaces",
	} {
		u, err := canonical(base, ref)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", ref, u, err, want)
			continue
		}
		if again, err := canonical(nil, u.String()); err != nil || again.String() != want {
			t.Errorf("%q the second time: %v, %v", ref, again, err)
		}
	}
	for _, ref := range []string{"mailto:a@b", "javascript:void(0)", "http://", "http://a b/"} {
		if u, err := canonical(base, ref); err == nil && u.Host != "example.com" {
			t.Errorf("%q is taken: %v", ref, u)
		}
	}
}

func TestScope(t *testing.T) {
	seed, err := canonical(nil, "https://www.example.co.uk/docs/index.html")
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
			u, err := canonical(nil, link)
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
