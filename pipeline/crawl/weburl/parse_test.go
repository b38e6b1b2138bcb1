package weburl

import (
	"net/url"
	"testing"
)

func TestParse(t *testing.T) {
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
		u, err := Parse(base, ref)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", ref, u, err, want)
			continue
		}
		if again, err := Parse(nil, u.String()); err != nil || again.String() != want {
			t.Errorf("%q the second time: %v, %v", ref, again, err)
		}
	}
	for _, ref := range []string{"mailto:a@b", "javascript:void(0)", "http://", "http://a b/"} {
		if u, err := Parse(base, ref); err == nil && u.Host != "example.com" {
			t.Errorf("%q is taken: %v", ref, u)
		}
	}
}
