package site

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// answer asks the handler directly.
func answer(s http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	func() {
		// A reset cannot be recorded; it is the end of the answer.
		defer func() {
			p := recover()
			if err, ok := p.(error); p == nil || ok && errors.Is(err, http.ErrAbortHandler) {
				return
			}
			panic(p)
		}()
		s.ServeHTTP(w, r)
	}()
	return w
}

// attributes returns the values of an attribute in a page's tags, in order.
func attributes(body, name string) []string {
	var values []string
	for opening := " " + name + `="`; ; {
		_, rest, found := strings.Cut(body, opening)
		if !found {
			return values
		}
		value, rest, _ := strings.Cut(rest, `"`)
		values = append(values, html.UnescapeString(value))
		body = rest
	}
}

// TestEveryPage renders the whole library: each page is well-formed, has the
// title and main that doc.go promises, and every link and fragment exists.
func TestEveryPage(t *testing.T) {
	s := open(t, Options{})
	anchors := make(map[string]bool)
	targets := make(map[string]string) // target → a page that links there
	for path := range s.Paths() {
		w := answer(s, "GET", path, nil)
		body := w.Body.String()
		if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML {
			t.Fatalf("%s: %d %s %s", path, w.Code, w.Header().Get("Content-Type"), body)
		}
		if err := wellFormed(body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, id := range attributes(body, "id") {
			at := path + "#" + id
			if anchors[at] {
				t.Errorf("%s occurs twice", at)
			}
			anchors[at] = true
		}
		anchors[path] = true
		for _, target := range attributes(body, "href") {
			targets[target] = path
		}
	}
	for target, path := range targets {
		if !anchors[target] {
			t.Errorf("%s links to %s, which is not there", path, target)
		}
	}
}

// wellFormed checks what a strict reader would: one title, one main, every
// element closed in order (but for those whose end HTML lets one omit), and
// no markup character left unescaped.
func wellFormed(body string) error {
	for _, once := range []string{"<title>", "<main data-kind=", "<h1>", "<!DOCTYPE html>\n"} {
		if strings.Count(body, once) != 1 {
			return fmt.Errorf("%s occurs %d times", once, strings.Count(body, once))
		}
	}
	var stack []string
	before, rest, more := strings.Cut(body[len("<!DOCTYPE html>\n"):], "<")
	for more {
		var inside string
		if inside, rest, more = strings.Cut(rest, ">"); !more || strings.ContainsAny(before, ">") && stack[len(stack)-1] != "style" {
			return fmt.Errorf("unescaped near %.60q", before+"<"+inside)
		}
		name, attributes, _ := strings.Cut(inside, " ")
		name, closing := strings.CutPrefix(name, "/")
		switch {
		case !plainName(name) || strings.Count(attributes, `"`) != 2*strings.Count(attributes, `="`):
			return fmt.Errorf("<%s> is no tag", inside)
		case name == "meta", name == "p", name == "li": // need no end tag
		case !closing:
			stack = append(stack, name)
		case len(stack) == 0 || stack[len(stack)-1] != name:
			return fmt.Errorf("</%s> closes %q", name, stack)
		default:
			stack = stack[:len(stack)-1]
		}
		before, rest, more = strings.Cut(rest, "<")
	}
	if len(stack) > 0 {
		return fmt.Errorf("%q is not closed", stack)
	}
	return nil
}

// TestRendering looks at what is in a few pages.
func TestRendering(t *testing.T) {
	small := openAt(t, smallRoot(t, zoo), Options{})
	std := open(t, Options{})
	for _, test := range []struct {
		site *Site
		path string
		want []string
		not  []string
	}{
		{small, "/", []string{"11 pages", `<a href="/pkg/io">io</a></td><td>Package io is &lt;basic&gt; &amp; small.`}, nil},
		{small, "/pkg/io", []string{"<title>package io – Go standard library</title>", `<a href="/src/io/io.go">`, `<a href="/pkg/fmt">fmt</a>`}, []string{"hidden"}},
		{small, "/pkg/io/First", []string{`<b id="First">First</b>`, `<b id="Third">Third</b>`, "Modes of writing."}, []string{`id="second"`}},
		{small, "/pkg/io/Writer", []string{`<a href="/pkg/io/Discard#Discard">Discard</a>`, "https://example.com/x"}, []string{`"https:`}},
		{small, "/pkg/fmt/Fprint", []string{`w <a href="/pkg/io/Writer">io.Writer</a>`, `>type io.Writer</a>`, `<a href="/src/fmt/print.go#L7">print.go:7</a>`}, nil},
		{small, "/src/fmt/print.go", []string{`<b>import</b> <a href="/pkg/io">&#34;io&#34;</a>`, `<span id="L4">`, `<i>// Package fmt prints.</i>`, `<a href="/pkg/fmt/Fprint">Fprint</a>`}, nil},
		{std, "/pkg/net/http/Client", []string{`CheckRedirect func(req *<a href="/pkg/net/http/Request">Request</a>`, `Timeout <a href="/pkg/time/Duration">time.Duration</a>`, `id="Client.Do"`, `"/pkg/builtin/error"`}, nil},
		{std, "/pkg/slices/Sort", []string{`<a href="/pkg/cmp/Ordered">cmp.Ordered</a>`}, nil},
		{std, "/pkg/math/rand/v2/NewPCG", []string{`<a href="/pkg/math/rand/v2/PCG">PCG</a>`}, nil},
		{std, "/pkg/testing/T", []string{`id="T.Run"`, "See also"}, nil},
		{std, "/pkg/builtin/append", []string{"func append(slice []"}, nil},
		{std, "/pkg/os", []string{`<a href="/pkg/os/File#File.ReadAt">func (f *File) ReadAt(b []byte, off int64) (n int, err error)</a>`}, nil},
	} {
		body := answer(test.site, "GET", test.path, nil).Body.String()
		for _, want := range test.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not contain %s", test.path, want)
			}
		}
		for _, not := range test.not {
			if strings.Contains(body, not) {
				t.Errorf("%s contains %s", test.path, not)
			}
		}
	}
	if t.Failed() {
		t.Log(answer(small, "GET", "/src/fmt/print.go", nil).Body.String())
	}
}

// TestDeclarationLinks tells names apart that are spelt alike.
func TestDeclarationLinks(t *testing.T) {
	s := openAt(t, smallRoot(t, map[string]string{
		"fmt/f.go":          "package fmt\n",
		"math/rand/v2/r.go": "package rand\n\ntype Source int\n",
		"box/box.go": `package box

import (
	alias "math/rand"
	"math/rand/v2"
)

type T struct{}

type Box[T any] struct {
	T    int // a field, not the type
	Next *Box[T]
	Real rand.Source
	Old  alias.Source
}

func (b *Box[T]) Put(v T) {}

func Empty(T int, box T) *Box[T] { return nil }

func Each[T any](f func(T)) {}
`}), Options{})
	decl := func(path, from string) string {
		_, rest, _ := strings.Cut(answer(s, "GET", path, nil).Body.String(), `<pre class="decl">`+from)
		text, _, _ := strings.Cut(rest, "</pre>")
		return text
	}
	for _, test := range []struct{ path, from, want string }{
		{"/pkg/box/Box", "type ", "Box[T any] struct {\n    T    int <i>// a field, not the type</i>\n    Next *Box[T]\n" +
			"    Real <a href=\"/pkg/math/rand/v2/Source\">rand.Source</a>\n    Old  alias.Source\n}"},
		{"/pkg/box/Empty", "func ", `Empty(T int, box <a href="/pkg/box/T">T</a>) *<a href="/pkg/box/Box">Box</a>[<a href="/pkg/box/T">T</a>]`},
		{"/pkg/box/Each", "func ", "Each[T any](f func(T))"},
	} {
		if got := decl(test.path, test.from); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.path, got, test.want)
		}
	}
	if body := answer(s, "GET", "/pkg/box/Box", nil).Body.String(); !strings.Contains(body, "func (b *Box[T]) Put(v T)</pre>") {
		t.Error("a receiver's type parameter is linked")
	}
}

// TestSourceIsWhole takes the tags off a rendered file and finds its text.
func TestSourceIsWhole(t *testing.T) {
	text := "package odd\r\n\n/* two\n\tlines */\nvar s = `raw <b>\n&amp;\r\n`\n\nimport (\n\t\"io\"\n)\n// a comment at the end without a newline: ü"
	s := openAt(t, smallRoot(t, zoo), Options{})
	p := s.catalogue.byPath["/src/io/io.go"]
	main := string(sourceSheet(s.catalogue, p, []byte(text)).main)
	_, pre, _ := strings.Cut(main, "<pre class=\"source\">")
	tag := regexp.MustCompile(`<[^>]*>`)
	got := html.UnescapeString(tag.ReplaceAllString(strings.TrimSuffix(pre, "\n"), ""))
	if got != text {
		t.Errorf("got  %q\nwant %q", got, text)
	}
	for i := range strings.Count(text, "\n") + 1 {
		if id := fmt.Sprintf(`id="L%d"`, i+1); strings.Count(pre, id) != 1 {
			t.Errorf("%s occurs %d times", id, strings.Count(pre, id))
		}
	}
}

func TestNeighbours(t *testing.T) {
	s := openAt(t, smallRoot(t, zoo), Options{})
	for path, want := range map[string][]string{
		"/pkg/io":         {"/pkg/fmt", "/pkg/net/http/cmd/server"},
		"/pkg/io/Writer":  {"/pkg/io/Discard"},
		"/pkg/io/Discard": {"/pkg/io/Writer", "/pkg/io/First"},
		"/pkg/io/First":   {"/pkg/io/Discard", "/src/io/io.go"},
	} {
		_, footer, _ := strings.Cut(answer(s, "GET", path, nil).Body.String(), "<footer>")
		if got := attributes(footer, "href"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
