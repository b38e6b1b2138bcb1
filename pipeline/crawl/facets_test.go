package crawl

import (
	crypto "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// A site that makes up URLs without end is left after a bounded number of requests, and nothing of it that is real is
// lost.
func TestCrawlOfMadeURLsEnds(t *testing.T) {
	const most, honest = 4000, 30
	menu := strings.Repeat("<p>The shop of fine things", 3)
	number := func(r *http.Request) (n int) {
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		return n
	}
	items := func(n int) (list string) {
		for id := n * 10; id < n*10+10 && id < honest; id++ {
			list += fmt.Sprintf("<a href=/item/%d>Item %[1]d</a>", id)
		}
		return list
	}
	for name, c := range map[string]struct {
		why  string
		page func(r *http.Request) string
	}{
		"pages that jump ahead": {whyIdle, func(r *http.Request) string {
			n, list := number(r), ""
			for _, by := range []int{1, 2, 10, 1000} {
				list += fmt.Sprintf("<a href=/list?n=%d>on</a>", n+by)
			}
			return items(n) + list
		}},
		"searches": {whyStale, func(r *http.Request) string {
			q, list := r.URL.Query().Get("q"), items(0)+items(1)+items(2)
			for range 3 {
				word := menuWords[rand.IntN(len(menuWords))]
				list += fmt.Sprintf("<a href=/s?q=%s+%s>%s</a>", url.QueryEscape(q), word, word)
			}
			return list
		}},
		"refreshes": {whyRefreshed, func(r *http.Request) string {
			return items(0) + items(1) + items(2) + "<meta http-equiv=refresh content='0;url=/r?t=" + crypto.Text() + "'>"
		}},
	} {
		pages, account := walk(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var id int
			if n, _ := fmt.Sscanf(r.URL.Path, "/item/%d", &id); n == 1 {
				text("text/html", fmt.Sprintf("<p>%s", strings.Repeat(string(rune('a'+id)), id+1)))(w, r)
				return
			}
			text("text/html", menu+c.page(r))(w, r)
		}), most)
		for id := range honest {
			if !pages[fmt.Sprintf("/item/%d", id)] {
				t.Errorf("%s: item %d is missing", name, id)
			}
		}
		if len(pages) >= most || account[c.why].Count == 0 {
			t.Errorf("%s: %d pages: %v", name, len(pages), account)
		}
	}
}

var menuWords = strings.Fields("amber basket candle dragon ember forest garden harbor island jacket kettle lantern")

// Hosts without end are those of one owner, and their links make the URL longer.
func TestHostsOfOneOwner(t *testing.T) {
	for link, want := range map[string]bool{
		"http://b.example.com/": true, "http://a.example.com/": false, "http://b.example.org/": false,
		"http://a.example.com/?q=a+b": true, "http://a.example.com/1-2": true, "http://a.example.com/x": false,
	} {
		page, to := &url.URL{Scheme: "http", Host: "a.example.com", Path: "/"}, mustParse(t, link)
		if longer(page, to) != want || realm(page) == realm(to) == strings.HasSuffix(link, "org/") {
			t.Errorf("%s: %v, %s", link, longer(page, to), realm(to))
		}
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// walk carries out all requests of a crawl, one after the other, without a store. It ends after most requests.
func walk(t *testing.T, site http.Handler, most int) (pages map[string]bool, account leftOut) {
	t.Helper()
	server := httptest.NewServer(site)
	defer server.Close()
	seed, err := url.Parse(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults(seed.String())
	o.AllowPrivate, o.IgnoreRobots = true, true
	c := newCrawler("crawl", "run", o, []*url.URL{seed})
	pages = map[string]bool{}
	queue, known := []pawl.Message{c.visit(seed, request{})}, map[string]bool{}
	for ; len(queue) > 0 && len(pages) < most; queue = queue[1:] {
		if known[queue[0].Unique.Key] {
			continue
		}
		known[queue[0].Unique.Key] = true
		d := &pawl.Delivery{Message: queue[0]}
		if err := c.Handle(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		for _, m := range d.Emitted() {
			if m.Topic == c.requestTopic() {
				queue = append(queue, m)
				continue
			}
			var o outcome
			if err := json.Unmarshal(m.Body, &o); err != nil {
				t.Fatal(err)
			}
			if o.Kind == kindPage {
				pages[strings.TrimPrefix(o.URL, server.URL)] = true
			} else {
				account.count(o.Why, left{1, o.URL})
			}
			for why, more := range o.LeftOut {
				account.count(why, more)
			}
		}
	}
	return pages, account
}

// filters is a shop with filters by query, in all combinations and orders, whose URLs have all filters or only those
// that are chosen. A list has the products that match, in parts of ten.
func filters(all bool) http.HandlerFunc {
	const products, values, part = 30, 5, 10
	return func(w http.ResponseWriter, r *http.Request) {
		var id, page, found int
		if n, _ := fmt.Sscanf(r.URL.Path, "/product/%d", &id); n == 1 {
			text("text/html", fmt.Sprintf("<p>%s", strings.Repeat(string(rune('a'+id%26)), id+1)))(w, r)
			return
		}
		query := r.URL.RawQuery
		if query == "" && all {
			query = "a=&b=&c=&d=&e=&f=&page=0"
		}
		var b strings.Builder
		link := func(pairs []string, page int) {
			pairs = slices.DeleteFunc(pairs, func(pair string) bool { return pair == "" || strings.HasPrefix(pair, "page") })
			fmt.Fprintf(&b, `<a href="/list?%s">x</a>`, strings.Join(append(pairs, fmt.Sprintf("page=%d", page)), "&"))
		}
		chosen, pairs := r.URL.Query(), strings.Split(query, "&")
		_, _ = fmt.Sscan(chosen.Get("page"), &page)
		for name := range strings.SplitSeq("a b c d e f", " ") {
			fmt.Fprintf(&b, "<p>%s", strings.Repeat("kind "+name+chosen.Get(name), 2)) // such words are not in the URL
			at := slices.IndexFunc(pairs, func(pair string) bool { return strings.HasPrefix(pair, name) })
			for v := range values {
				if next := slices.Clone(pairs); at < 0 {
					link(append(next, fmt.Sprintf("%s=%c", name, 'p'+v)), 0)
				} else {
					next[at] = fmt.Sprintf("%s=%c", name, 'p'+v)
					link(next, 0)
				}
			}
		}
		for id := range products {
			fits := true
			for f := range 6 {
				value := chosen.Get(string(rune('a' + f)))
				fits = fits && (value == "" || value == string(rune('p'+(id/(f+1)+id)%values)))
			}
			if fits && found/part == page {
				fmt.Fprintf(&b, `<p><a href="/product/%d">Product %d</a> costs %d`, id, id, id*7)
			}
			if fits {
				found++
			}
		}
		if fmt.Fprintf(&b, "<p>%d products at %s", found, time.Now()); found > (page+1)*part {
			link(pairs, page+1)
		}
		text("text/html", b.String())(w, r)
	}
}

// A shop with filters ends, all its products are found, and the account says what was left out.
func TestCrawlOfFiltersEnds(t *testing.T) {
	const most = 4000
	for _, all := range []bool{true, false} {
		pages, account := walk(t, filters(all), most)
		for id := range 30 {
			if !pages[fmt.Sprintf("/product/%d", id)] {
				t.Errorf("product %d is missing", id)
			}
		}
		if len(pages) >= most || account[whyDull].Count == 0 || !strings.Contains(account[whyDull].URL, "/list?") {
			t.Errorf("%d pages: %v", len(pages), account)
		}
	}
}

// No page of a grid of parameters without words is lost, nor one of lists in several orders.
func TestCrawlOfHonestParametersIsWhole(t *testing.T) {
	const side, rows, part = 40, 3000, 10
	grid := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var x, y int
		_, _ = fmt.Sscanf(r.URL.RawQuery, "x=%d&y=%d", &x, &y)
		text("text/html", fmt.Sprintf(`<p>%[1]d<a href="/?x=%[2]d&y=%[3]d">x</a><a href="/?x=%[4]d&y=%[5]d">y</a>`,
			x*y, (x+1)%side, y, x, (y+1)%side))(w, r)
	})
	if pages, account := walk(t, grid, side*side+9); len(pages) < side*side || len(account) > 0 {
		t.Errorf("the grid: %d pages: %v", len(pages), account)
	}
	list := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, page := "", 0
		for _, order := range []string{"name", "price"} {
			if _, err := fmt.Sscanf(r.URL.RawQuery, "order="+order+"&page=%d", &page); err != nil && r.URL.Path != "/" {
				continue
			}
			for n := range part {
				if r.URL.Path == "/list" {
					body += fmt.Sprintf("<a href=/item?id=%d>Item %[1]d</a>", page*part+n)
				}
			}
			if page < rows/part-1 {
				body += fmt.Sprintf(`<a href="/list?order=%s&page=%d">on</a>`, order, page+1)
			}
		}
		text("text/html", "<p>the list"+body)(w, r)
	})
	if pages, account := walk(t, list, 2*rows); len(pages) < rows+rows/part || len(account) > 0 {
		t.Errorf("the list: %d pages: %v", len(pages), account)
	}
}
