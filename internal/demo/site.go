package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultPages is how many pages the site has unless told otherwise.
const DefaultPages = 3000

// site is what the demo crawls, a handler over linked pages that are made up from a seed:
//
//	/                  links to every topic
//	/topic/3           links to the pages of the topic
//	/topic/3/page/7    links to its topic and to some pages anywhere
//
// Every page can be reached from "/" by links, and no link leads off the site: its pages are the truth that a crawl
// is measured against. Some have a fault of a real network.
type site struct {
	seed     uint64
	pages    []*sitePage // "/" first
	byPath   map[string]*sitePage
	requests atomic.Int64
}

// sitePage is a page, and what is wrong with it.
type sitePage struct {
	path, name string
	topic      int // -1: the page is "/"
	leaf       bool
	fault      fault
	requests   atomic.Int64
}

// fault is what goes wrong with a page.
type fault uint8

const (
	none        fault = iota
	throttled         // 429, Retry-After: 1
	unavailable       // 503
	late              // a good answer, half a second late
	cut               // the connection ends in the middle of the body
	// The faults before this one pass with the first request; those that follow stay for ever.
	passes
	failing // 500
	broken  // 200 with a body that no honest parser accepts
)

// lasting are the pages of each fault that stays, and passing is how many of a thousand pages have each of the others:
// every one occurs, and a polite crawl of [DefaultPages] still ends well within a minute. What costs time is the 429,
// for which a crawler leaves the whole host alone.
var (
	lasting = map[fault]int{failing: 2, broken: 3}
	passing = map[fault]int{throttled: 2, unavailable: 10, late: 5, cut: 10}
)

// topicSize is how many pages a topic has, its own included.
const topicSize = 25

// newSite makes a site of so many pages. Equal seeds, equal sites; a larger one has the pages of a smaller one.
func newSite(pages int, seed uint64) *site {
	s := &site{seed: seed, pages: []*sitePage{{path: "/", name: "Everything", topic: -1}}}
	for i := range pages - 1 {
		topic, nth := i/topicSize, i%topicSize
		p := &sitePage{path: fmt.Sprintf("/topic/%d", topic), name: fmt.Sprintf("Topic %d", topic), topic: topic}
		if nth > 0 {
			p.path, p.name = fmt.Sprintf("%s/page/%d", p.path, nth), fmt.Sprintf("%s, page %d", p.name, nth)
			p.leaf = true
		}
		s.pages = append(s.pages, p)
	}
	s.byPath = make(map[string]*sitePage, len(s.pages))
	for _, p := range s.pages {
		s.byPath[p.path] = p
	}
	s.spoil()
	return s
}

// dice is a number that depends on the seed and a path alone, the same in every version of Go.
func (s *site) dice(path string) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, s.seed), path...))
	return binary.LittleEndian.Uint64(sum[:])
}

// spoil gives pages their faults. The index stays well: it is where one looks first. Faults that stay go to leaves, so
// that every other page stays reachable.
func (s *site) spoil() {
	deck := slices.SortedFunc(slices.Values(s.pages[1:]), func(a, b *sitePage) int {
		return cmp.Compare(s.dice(a.path), s.dice(b.path))
	})
	give := func(f fault, n int, fits func(*sitePage) bool) {
		for _, p := range deck {
			if n > 0 && p.fault == none && fits(p) {
				p.fault = f
				n--
			}
		}
	}
	for f := passes + 1; f <= broken; f++ {
		give(f, lasting[f], func(p *sitePage) bool { return p.leaf })
	}
	for f := none + 1; f < passes; f++ {
		give(f, (passing[f]*len(s.pages)+999)/1000, func(*sitePage) bool { return true })
	}
}

// with counts the pages that have a fault.
func (s *site) with(f fault) (n int) {
	for _, p := range s.pages {
		if p.fault == f {
			n++
		}
	}
	return n
}

// ServeHTTP implements [http.Handler].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	p := s.byPath[r.URL.Path]
	if p == nil {
		http.NotFound(w, r)
		return
	}
	f := p.fault
	if p.requests.Add(1) > 1 && f < passes {
		f = none
	}
	body := s.body(p)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	switch f {
	case throttled:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case unavailable:
		http.Error(w, "unavailable", http.StatusServiceUnavailable)
	case failing:
		http.Error(w, "failed", http.StatusInternalServerError)
	case cut:
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // else the client may take the connection for an idle one
		panic(http.ErrAbortHandler)
	case late:
		if wait(r.Context(), 500*time.Millisecond) {
			_, _ = w.Write(body)
		}
	default:
		_, _ = w.Write(body)
	}
}

// wait sleeps for d; it reports false if the client went away meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// targets are the pages that a page links to.
func (s *site) targets(p *sitePage, random *rand.Rand) []*sitePage {
	first := 1 + p.topic*topicSize
	switch {
	case p.leaf:
		to := []*sitePage{s.pages[0], s.pages[first]}
		for range 4 {
			to = append(to, s.pages[random.IntN(len(s.pages))])
		}
		return to
	case p.topic >= 0:
		return append([]*sitePage{s.pages[0]}, s.pages[first:min(first+topicSize, len(s.pages))]...)
	}
	var to []*sitePage
	for i := 1; i < len(s.pages); i += topicSize {
		to = append(to, s.pages[i])
	}
	return to
}

var words = strings.Fields(
	"delivery lease lane store handler ack retry letter policy topic worker fence batch order clock message")

// body renders a page: always the same for a seed and a path. A good one is HTML in UTF-8 with one <title> and one
// <main>. One that is broken is of a kind seen in the wild, a template that stopped half way: it has neither, nothing
// that was opened is closed, and its last words are UTF-16, which as UTF-8 is not even valid.
func (s *site) body(p *sitePage) []byte {
	if p.fault == broken {
		return []byte("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<body>\n<table><tr><td><ul><li>" +
			"\xff\xfe\xdc\x00b\x00e\x00r\x00<a class=\"decl href=/topic/")
	}
	random := rand.New(rand.NewPCG(s.seed, s.dice(p.path))) //nolint:gosec // pages are no secrets
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>%s – «Über»</title></head>\n",
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
