package site

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
)

// topicSize is how many pages a topic has, its own included.
const topicSize = 25

// page is a page, and what is wrong with it.
type page struct {
	path     string
	name     string
	topic    int // -1: the page is "/"
	leaf     bool
	requests atomic.Uint32
	trouble
}

// pages makes up that many of them. A larger site has the pages of a smaller one.
func pages(n int) []*page {
	all := []*page{{path: "/", name: "Everything", topic: -1}}
	for i := range n - 1 {
		topic, nth := i/topicSize, i%topicSize
		p := &page{path: fmt.Sprintf("/topic/%d", topic), name: fmt.Sprintf("Topic %d", topic), topic: topic}
		if nth > 0 {
			p.path, p.name, p.leaf = fmt.Sprintf("%s/page/%d", p.path, nth),
				fmt.Sprintf("%s, page %d", p.name, nth), true
		}
		all = append(all, p)
	}
	return all
}

// targets are the pages that a page links to. The failing and broken ones are leaves: nobody needs their links.
func (s *Site) targets(p *page, random *rand.Rand) []*page {
	switch {
	case p.leaf:
		to := []*page{s.pages[0], s.pages[1+p.topic*topicSize]}
		for range 4 {
			to = append(to, s.pages[random.IntN(len(s.pages))])
		}
		return to
	case p.topic >= 0:
		first := 1 + p.topic*topicSize
		return append([]*page{s.pages[0]}, s.pages[first:min(first+topicSize, len(s.pages))]...)
	}
	var to []*page
	for i := 1; i < len(s.pages); i += topicSize {
		to = append(to, s.pages[i])
	}
	return to
}

var words = strings.Fields(
	"delivery lease lane store handler ack retry letter policy topic worker fence batch order clock message")

// body renders a good page: always the same for a seed and a path.
func (s *Site) body(p *page) []byte {
	random := rand.New(rand.NewPCG(s.seed, dice(s.seed, p.path))) //nolint:gosec // pages are no secrets
	var b strings.Builder
	fmt.Fprintf(&b,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>%s – «Über»</title></head>\n",
		p.name)
	fmt.Fprintf(&b, "<body><main>\n<h1>%s</h1>\n", p.name)
	for range 1 + random.IntN(6) {
		b.WriteString("<p>")
		for range 20 + random.IntN(60) {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("<ul>\n")
	for _, to := range s.targets(p, random) {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", to.path, to.name)
	}
	b.WriteString("</ul>\n</main></body></html>\n")
	return []byte(b.String())
}

// noticeBody is the page that goes with a status.
func noticeBody(status int) []byte {
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	return fmt.Appendf(nil, "<!DOCTYPE html>\n<html><head><title>%s</title></head><body><h1>%[1]s</h1></body></html>\n",
		text)
}

// BrokenMarker is in the body of every page of [Site.Broken], and in no other.
const BrokenMarker = "<!-- page deliberately broken -->"

// brokenBody returns what a broken page sends as text/html in UTF-8. It is a page of a kind seen in the wild: a
// template that stopped half way, with text in another encoding pasted in. There is no <title> and no <main>, nothing
// that was opened is closed, the last attribute does not end, and the text after the marker is UTF-16, which as UTF-8
// is not even valid.
func brokenBody(p *page) []byte {
	body := []byte("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<body>\n" +
		BrokenMarker + "\n<div class=\"page\"><table><tr><td><ul><li>")
	body = append(body, 0xff, 0xfe)
	for _, r := range "Über «" + p.name + "» – " {
		body = binary.LittleEndian.AppendUint16(body, uint16(r))
	}
	return append(body, "<td><pre><a class=\"decl href=/topic/"...)
}
