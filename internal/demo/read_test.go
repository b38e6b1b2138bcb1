package demo

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestReadFindsTitleAndLinks(t *testing.T) {
	base, _ := url.Parse(page("/pkg/fmt"))
	doc, err := read(strings.NewReader(`<title>fmt &amp; more</title><main>
		<a href="/pkg/io">io</a> <a href="io#top">again, by another way</a> <a href="#here">here</a>
		<a href="/pkg/io#x">the same page</a> <a href="https://example.org/">elsewhere</a> <a href="ftp://x">x</a>
		<a name="no link">no</a></main>`), base)
	want := []string{page("/pkg/io"), page("/pkg/fmt")}
	if err != nil || doc.title != "fmt & more" || !slices.Equal(doc.links, want) {
		t.Fatalf("%+v, %v", doc, err)
	}
}

func TestReadRefusesWhatNobodyCouldUse(t *testing.T) {
	base, _ := url.Parse(page("/"))
	for body, want := range map[string]error{
		"<main>no title</main>":                 errNoTitle,
		"<title>no main</title>":                errNoMain,
		"<title>t</title><main>\xff\xfe broken": errNotText,
		"":                                      errNoTitle,
		"<title>fine</title><main>and that is all":     nil,
		"<title>\xff</title><main>broken title</main>": errNotText,
	} {
		if _, err := read(strings.NewReader(body), base); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", body, err, want)
		}
	}
}
