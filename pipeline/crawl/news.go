package crawl

import (
	"bytes"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Bounds of pages that say nothing new. A menu repeats on every page of a site, so pages are compared by the groups of
// three words that no page of their host had before: fewer than fewNews are no news. Pages may say nothing new and be
// worth it all the same, as those of a table of figures, so only links that make the URL longer are left out: after
// maxStale pages deep without news, and after fewStale where maxDull pages of the host in a row were such, one less
// where twice as many were. Those of a calendar are left out after maxEmpty in a row. The links of a page whose text,
// of enoughWords, maxSame pages had before it lead where those did. A host may have maxIdle pages that combine
// parameters and link to nothing new, and idleNews more with every other page: filters in all orders. Such a page names
// its filters, so that its words have fewCombined new groups soon.
const (
	fewNews     = 4
	fewStale    = 2
	maxStale    = 4
	maxDull     = 500
	maxEmpty    = 36
	enoughWords = 20
	maxSame     = 3
	maxIdle     = 2000
	idleNews    = 10
	fewCombined = 40
)

// maxNews bounds the groups of words that a process remembers in newsBits bits, one each.
const (
	newsBits = 1 << 26
	maxNews  = 1 << 23
)

// news are the groups of words of the pages that this process has read. Two groups may share a bit, so a page seems a
// little older than it is.
type news struct {
	mu   sync.Mutex
	seed maphash.Seed
	bits []uint64
	n    int
	same map[uint64]int // how many pages had a text
}

// again reports whether enough pages of a host had the text of a page before it.
func (s *news) again(host string, w *words) bool {
	if w.n < enoughWords {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.same == nil || len(s.same) > maxSeen {
		s.same = map[uint64]int{}
	}
	of := maphash.Comparable(wordSeed, [2]uint64{maphash.String(wordSeed, host), w.all})
	s.same[of]++
	return s.same[of] > maxSame
}

// add records the groups of a page of a host, and returns how many of them are new.
func (s *news) add(host string, groups []uint64) (fresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bits == nil || s.n > maxNews {
		s.bits, s.n, s.seed = make([]uint64, newsBits/64), 0, maphash.MakeSeed()
	}
	of := maphash.String(s.seed, host)
	for _, group := range groups {
		if word, bit := s.at(of, group); *word&bit == 0 {
			*word |= bit
			fresh++
		}
	}
	s.n += fresh
	return fresh
}

// has reports whether all groups were added.
func (s *news) has(host string, groups []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := maphash.String(s.seed, host)
	return s.bits != nil && !slices.ContainsFunc(groups, func(group uint64) bool {
		word, bit := s.at(of, group)
		return *word&bit == 0
	})
}

func (s *news) at(of, group uint64) (word *uint64, bit uint64) {
	at := maphash.Comparable(s.seed, [2]uint64{of, group}) % newsBits
	return &s.bits[at/64], 1 << (at % 64)
}

// combines reports whether a URL combines parameters that pages had before: each was in the URL of one.
func (s *news) combines(u *url.URL) bool {
	all := parameters(u)
	return len(all) > 1 && s.has(site(u), all)
}

// parameters are the path of a URL with each of its parameters, and with each part of a value that is a list.
func parameters(u *url.URL) (all []uint64) {
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(",;|", r) }) {
			all = append(all, maphash.Comparable(wordSeed, [3]string{u.Path, name, part}))
		}
	}
	return all
}

// targets stand for where the links of a page lead: to which path, and with which parameters.
func targets(links []*url.URL) (all []uint64) {
	for _, link := range links {
		all = append(all, maphash.Comparable(wordSeed, [2]string{link.Host, link.Path}))
		for _, parameter := range parameters(link) {
			all = append(all, parameter+1) // no page had it in its URL
		}
	}
	return all
}

// idles reports whether a page combines parameters and has nothing new, and counts such pages of its host.
func (c *crawler) idles(u *url.URL, fresh int, links []*url.URL) bool {
	h, of := c.hosts.at(u), site(u)
	combines := c.news.combines(u)
	c.news.add(of, parameters(u))
	linked := c.news.add(of, targets(links)) > 0
	switch {
	case linked || combines && fresh >= fewCombined || !combines && fresh >= fewNews:
		h.idle.Store(max(h.idle.Load()-idleNews, 0))
	case combines:
		h.idle.Add(1)
		return true
	}
	return false
}

// tires reports whether a page that so many stale pages led to is left out: its host has said nothing new for long.
func (c *crawler) tires(u *url.URL, stale int) bool {
	dull := c.hosts.at(u).dull.Load()
	return stale > fewStale && dull > maxDull || stale >= fewStale && dull > 2*maxDull
}

var wordSeed = maphash.MakeSeed()

// words are the groups of a page, by their hashes.
type words struct {
	own    []string // of the URL of the page, in order
	n      int
	all    uint64 // of all words, those with digits too, and pictures
	last   [2]uint64
	groups []uint64
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func wordsOf(at *url.URL) words {
	own := strings.FieldsFunc(at.Path+" "+at.RawQuery, notWord)
	slices.Sort(own)
	return words{own: own}
}

// add takes a text. Words with digits are left out, as times and counters are, and so are those of the page's URL.
// A group is within one text, so that the order of texts is no news.
func (w *words) add(text []byte) {
	w.last = [2]uint64{}
	for word := range bytes.FieldsFuncSeq(text, notWord) {
		w.n++
		w.all = maphash.Comparable(wordSeed, [2]uint64{w.all, maphash.Bytes(wordSeed, word)})
		if bytes.ContainsAny(word, "0123456789") {
			continue
		}
		if _, own := slices.BinarySearch(w.own, string(word)); own {
			continue
		}
		this := maphash.Bytes(wordSeed, word)
		w.groups = append(w.groups, maphash.Comparable(wordSeed, [3]uint64{w.last[0], w.last[1], this}))
		w.last = [2]uint64{w.last[1], this}
	}
}

// picture takes a picture, which is news.
func (w *words) picture(src string) {
	of := maphash.String(wordSeed, src)
	w.all = maphash.Comparable(wordSeed, [2]uint64{w.all, of})
	for i := range uint64(fewCombined) {
		w.groups = append(w.groups, of+i)
	}
}

// longer reports whether a link has more segments or parameters than its page: those of a site without end do.
func longer(page, link *url.URL) bool {
	parameters := func(u *url.URL) int {
		return len(strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' }))
	}
	return strings.Count(link.Path, "/") > strings.Count(page.Path, "/") || parameters(link) > parameters(page)
}

// repeats reports whether a path has the same segments three times in a row, or six made of half as many, other than
// numbers.
func repeats(path string) bool {
	all := strings.Split(strings.Trim(path, "/"), "/")
	words := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Trim(s, "0123456789") == "" })
	n := len(words)
	slices.Sort(words)
	if n >= 6 && 2*len(slices.Compact(words)) <= n {
		return true
	}
	for n := 1; n <= len(all)/3; n++ {
		for i := 0; i+3*n <= len(all); i++ {
			part := all[i : i+n]
			if slices.Equal(part, all[i+n:i+2*n]) && slices.Equal(part, all[i+2*n:i+3*n]) &&
				strings.Trim(strings.Join(part, ""), "0123456789") != "" {
				return true
			}
		}
	}
	return false
}
