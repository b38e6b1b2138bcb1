package weburl

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestVectors holds Parse to the vectors of the URL standard: the URL is that of the vector without user
// and fragment, or one of those below, which differ for the reason that stands above them.
func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/urls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, used := 0, map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var vector [3]*string // input, base, URL
		if err := json.Unmarshal(lines.Bytes(), &vector); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		var base *url.URL
		if vector[1] != nil {
			if base, err = Parse(nil, *vector[1]); err != nil {
				t.Fatalf("line %d: %v", n+1, err)
			}
		}
		want := ""
		if vector[2] != nil {
			want, _, _ = strings.Cut(*vector[2], "#")
			if at := strings.IndexByte(want, '@'); at >= 0 && !strings.Contains(want[len("https://"):at], "/") {
				scheme, _, _ := strings.Cut(want, "://")
				want = scheme + "://" + want[at+1:]
			}
		}
		got := ""
		if u, err := Parse(base, *vector[0]); err == nil {
			got = u.String()
			if again, err := Parse(nil, got); err != nil || again.String() != got {
				t.Errorf("%q becomes %q, and that %v, %v", *vector[0], got, again, err)
			}
		}
		if ours, ok := differs[*vector[0]]; ok {
			used[*vector[0]], want = true, ours
		}
		if got != want {
			t.Errorf("%q at %v: %q, want %q", *vector[0], base, got, want)
		}
	}
	if n < 400 {
		t.Errorf("only %d vectors", n)
	}
	for input := range differs {
		if !used[input] {
			t.Errorf("%q is in no vector", input)
		}
	}
}

// differs has the vectors whose form is not the browsers', by input; empty: it is refused.
var differs = map[string]string{
	// An empty query is no query.
	"?":                         "http://example.org/foo/bar",
	"http://example.org/test?#": "http://example.org/test",
	"https://x/?#\x00y":         "https://x/",
	"https://x/?#\uffffy":       "https://x/",
	// Escapes are in upper case, and none stands for a character that needs none: RFC 3986, 6.2.2.
	"/a%2fc":                          "http://example.org/a%2Fc",
	"/a/%2f/c":                        "http://example.org/a/%2F/c",
	"http://example.com/foo%41%7a":    "http://example.com/fooAz",
	"http://example.com/foo%00%51":    "http://example.com/foo%00Q",
	"http://example.com/%3A%3a%3C%3c": "http://example.com/%3A%3A%3C%3C",
	"http://www/foo%2Ehtml":           "http://www/foo.html",
	"http://example.com/foo/%2e./%2e%2e/.%2e/%2e.bar": "http://example.com/..bar",
	// A % without two digits is escaped: an HTTP client of Go sends no other.
	"http://example.com/foo/%2e%2":             "http://example.com/foo/.%252",
	"http://example.com/foo%":                  "http://example.com/foo%25",
	"http://example.com/foo%2":                 "http://example.com/foo%252",
	"http://example.com/foo%2zbar":             "http://example.com/foo%252zbar",
	"http://example.com/foo%2\u00c2\u00a9zbar": "http://example.com/foo%252%C3%82%C2%A9zbar",
	// No resolver takes an empty label, nor these characters.
	"http://./":                    "",
	"http://../":                   "",
	"http://foo.09..":              "",
	"http://!\"$&'()*+,-.;=_`{}~/": "",
}
