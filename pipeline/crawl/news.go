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
// three words that no page of their domain had before: fewer than fewNews are no news. Pages may say nothing new and be
// worth it all the same, as those of a table of figures, so only links that make the URL longer are left out: after
// maxStale pages deep without news, and after fewStale where maxDull pages of the domain in a row were such, one less
// where twice as many were. Those of a calendar are left out after maxEmpty in a row. The links of a page whose text,
// of enoughWords, maxSame pages had before it lead where those did.
const (
	fewNews     = 4
	fewStale    = 2
	maxStale    = 4
	maxDull     = 500
	maxEmpty    = 36
	enoughWords = 20
	maxSame     = 3
)

// A place, which is a folder or a program, has maxIdle points for pages without news that such a page of it led to: it
// makes up URLs without end if all that comes of them are more of its own. A page that combines parameters, as filters
// in all orders do, costs idleCombined: it names its filters, so that fewCombined new groups are no news of it. One
// with a made URL costs idleMade, and idleSame if another page had its text; one in a folder costs a point then. A page
// with news gives idleNews back to its place, and to that of the page that led to it, which gets idleSame for any other
// text.
const (
	maxIdle      = 2_000_000
	idleCombined = maxIdle / 2000
	idleSame     = maxIdle / 2500
	idleMade     = maxIdle / 10_000
	idleNews     = maxIdle / 200
	fewCombined  = 40
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
	// tallies are the dull pages in a row of a realm, and the points of a place.
	tallies map[uint64]int64
}

// count takes a page into the tallies.
func (s *news) count(u *url.URL, o *outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tallies == nil || len(s.tallies) > maxSeen {
		s.tallies = map[uint64]int64{}
	}
	if of := hash64(realm(u)); o.Dull {
		s.tallies[of]++
	} else {
		delete(s.tallies, of)
	}
	at := place(u)
	s.tallies[at] = max(s.tallies[at]+o.Idle, 0)
	if o.From != 0 && o.From != at {
		s.tallies[o.From] = max(s.tallies[o.From]-o.Gives, 0)
	}
}

func (s *news) tally(of uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tallies[of]
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
	return len(all) > 1 && s.has(realm(u), all)
}

// parameters are the path of a URL with each of its parameters, and with each part of a value that is a list.
func parameters(u *url.URL) (all []uint64) {
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		list := func(r rune) bool { return strings.ContainsRune(",;|", r) }
		for part := range strings.FieldsFuncSeq(unescaped(value), list) {
			all = append(all, maphash.Comparable(wordSeed, [3]string{u.Path, name, part}))
		}
	}
	return all
}

func unescaped(query string) string {
	if plain, err := url.QueryUnescape(query); err == nil {
		return plain
	}
	return query
}

// idles reports whether a page has nothing new, and records in its outcome what that does to the tallies.
func (c *crawler) idles(u *url.URL, r *request, p *page, fresh int, o *outcome) (idle bool) {
	of, combines := realm(u), c.news.combines(u)
	c.news.add(of, parameters(u))
	same := c.news.add(of, []uint64{p.words.rest}) == 0
	switch {
	case combines && fresh >= fewCombined || !combines && fresh >= fewNews:
		o.Idle, o.Gives = -idleNews, idleNews
		return false
	case !same:
		o.Gives = idleSame
	}
	switch {
	case combines:
		o.Idle = idleCombined
	case made(u) && same && !month.MatchString(u.RequestURI()): // a calendar has few entries among many days
		o.Idle = idleSame
	case made(u):
		o.Idle = idleMade
	case same:
		o.Idle = 1
	default:
		return false
	}
	if !r.Idle {
		o.Idle = 0
	}
	return true
}

// tires reports whether a page that so many stale pages led to is left out: its domain has said nothing new for long.
func (c *crawler) tires(u *url.URL, stale int) bool {
	dull := c.news.tally(hash64(realm(u)))
	return stale > fewStale && dull > maxDull || stale >= fewStale && dull > 2*maxDull
}

var wordSeed = maphash.MakeSeed()

// words are the groups of a page, by their hashes.
type words struct {
	own    []string // of the URL of the page, in order
	n      int
	all    uint64 // of all words, those with digits too, and pictures
	rest   uint64 // the same without words of the URL
	last   [2]uint64
	groups []uint64
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func wordsOf(at *url.URL) words {
	own := strings.FieldsFunc(at.Path+" "+at.RawQuery, notWord)
	for i := range own { // 02 is 2
		own[i] = strings.TrimLeft(own[i], "0")
	}
	slices.Sort(own)
	return words{own: own}
}

// add takes a text. Words with digits are left out, as times and counters are, and so are those of the page's URL.
// A group is within one text, so that the order of texts is no news. Numbers of links, as those of pages, are no text.
func (w *words) add(text []byte, link bool) {
	w.last = [2]uint64{}
	for word := range bytes.FieldsFuncSeq(text, notWord) {
		w.n++
		w.all = maphash.Comparable(wordSeed, [2]uint64{w.all, maphash.Bytes(wordSeed, word)})
		if _, own := slices.BinarySearch(w.own, string(bytes.TrimLeft(word, "0"))); own {
			continue
		}
		number := bytes.ContainsAny(word, "0123456789")
		if !number || !link {
			w.rest = maphash.Comparable(wordSeed, [2]uint64{w.rest, maphash.Bytes(wordSeed, word)})
		}
		if number {
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
	w.rest = maphash.Comparable(wordSeed, [2]uint64{w.rest, of})
	for i := range uint64(fewCombined) {
		w.groups = append(w.groups, of+i)
	}
}

// longer reports whether a link has more segments, more numbers or more words in its query than its page, or leads to
// another host of its domain: those of a site without end do.
func longer(page, link *url.URL) bool {
	size := func(u *url.URL) int {
		numbers := 0
		for word := range strings.FieldsFuncSeq(u.Path, notWord) {
			if strings.ContainsAny(word, "0123456789") {
				numbers++
			}
		}
		return numbers + len(strings.FieldsFunc(unescaped(u.RawQuery), notWord))
	}
	return strings.Count(link.Path, "/") > strings.Count(page.Path, "/") || size(link) > size(page) ||
		link.Host != page.Host && realm(link) == realm(page)
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
