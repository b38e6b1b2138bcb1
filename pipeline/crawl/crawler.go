package crawl

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline/crawl/robotstxt"
	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// request is the body of a message of the topic NAME.request.
type request struct {
	URL   string   `json:"url"`
	Depth int64    `json:"depth"`
	Chain []string `json:"chain,omitempty"` // the URLs that led here by redirects, in order
	// Alike is how many pages in a row, up to the one that has the link, were in this one's place.
	Alike int `json:"alike,omitempty"`
	// Bodies stand for the content of the last pages that led here: see again.
	Bodies []string `json:"bodies,omitempty"`
	// Stale is how many pages in a row that led here said nothing new, and had links that are longer than their URLs.
	Stale int `json:"stale,omitempty"`
	// Empty is how many pages in a row that led here said nothing new.
	Empty int `json:"empty,omitempty"`
	// Idle tells that the page with the link is in its place, and had nothing new.
	Idle bool `json:"idle,omitempty"`
	// From is the place of the page with the link.
	From uint64 `json:"from,omitempty"`
	// Cookies tells that the page with the link, or the redirect, set some: they must be known before it is
	// fetched.
	Cookies bool `json:"cookies,omitempty"`
	// Refreshed is how many pages in a row that led here said, by a meta element, that it is here.
	Refreshed int `json:"refreshed,omitempty"`
	// Sitemap is how many sitemaps lead here, this one included; 0: it is a page. Skip are links that were read before.
	Sitemap int `json:"sitemap,omitempty"`
	Skip    int `json:"skip,omitempty"`
}

// outcome is the body of a message of the topic NAME.store: the result of a request. Exactly one is emitted with
// the ack of each.
type outcome struct {
	Kind string `json:"kind"` // page, excluded, moved or replayed
	// URL is the request's own; that of a sitemap is empty. Next are the keys of links of its own depth, redirects
	// included, Links those of links that are one deeper: see [depths].
	URL   string  `json:"url"`
	Next  urlKeys `json:"next,omitempty"`
	Links urlKeys `json:"links,omitempty"`
	// Found are links that were emitted, LeftOut those that were not, and Deeper those that were too deep.
	Found    int64    `json:"found,omitempty"`
	LeftOut  leftOut  `json:"left_out,omitempty"`
	Deeper   []string `json:"deeper,omitempty"`
	Why      string   `json:"why,omitempty"`
	Page     *Record  `json:"page,omitempty"`
	Markdown string   `json:"markdown,omitempty"` // of the page, where it is exported as such
	// Dull tells that the page said nothing new; Idle is what that costs its place, and Gives what it gives back to the
	// place From, whose page led to it: see [news].
	Dull  bool   `json:"dull,omitempty"`
	Idle  int64  `json:"idle,omitempty"`
	Gives int64  `json:"gives,omitempty"`
	From  uint64 `json:"from,omitempty"`
}

const (
	kindPage     = "page"
	kindExcluded = "excluded"
	kindMoved    = "moved"
	kindReplayed = "replayed" // a request of an earlier run: it was not appended in this one
)

// Record is a page, as it is exported.
type Record struct {
	URL         string    `json:"url"`
	FinalURL    string    `json:"final_url"`
	Status      int       `json:"status"`
	Depth       int64     `json:"depth"`
	Title       string    `json:"title"`
	ContentType string    `json:"content_type"`
	Charset     string    `json:"charset"`
	Bytes       int64     `json:"bytes"`
	SHA256      string    `json:"sha256"`
	FetchedAt   time.Time `json:"fetched_at"`
	ETag        string    `json:"etag,omitempty"`
	Links       int       `json:"links"`
	// Fields are what the module reads from the page, and Items what it reads from each of its items instead.
	Fields map[string]any   `json:"fields,omitempty"`
	Items  []map[string]any `json:"items,omitempty"`
}

// crawler carries out requests. It is safe for concurrent use.
type crawler struct {
	name    string
	run     string // its id
	from    int64  // the cursor behind which its results begin
	options Options
	seeds   []*url.URL
	scope   *scope
	parse   func(context.Context, *Page) error // nil: there is nothing but selectors
	fetch   *fetcher
	hosts   hosts
	seen    seen
	news    news
	// outdated reports whether another process has ended the run, and begun a new one, or whether that is unknown.
	outdated func(ctx context.Context) bool
	// over tells that the run is exported, or about to be: what is replayed now is for the next one.
	over    atomic.Bool
	count   counters
	marked  marked
	stored  atomic.Int64 // pages, those of other processes included as far as they are counted
	counted struct{ pages, upTo int64 }
}

// counters are of this process.
type counters struct {
	requests, pages, bytes, failed, inFlight atomic.Int64
}

func newCrawler(name, run string, o Options, seeds []*url.URL) *crawler {
	return &crawler{
		name: name, run: run, options: o, seeds: seeds, scope: &scope{kind: o.Scope, seeds: seeds},
		fetch: newFetcher(&o, seeds...),
		hosts: hosts{byID: map[string]*host{}},
	}
}

// The events of a request and of its steps: they select the rows of the policy.
var (
	download = policy.Event{Domain: policy.Engine, Type: "Download"}
	parser   = policy.Event{Domain: policy.Engine, Type: "Parser"}
	storing  = policy.Event{Domain: policy.Engine, Type: "DataStore"}
)

func (c *crawler) requestTopic() string { return c.name + ".request" }
func (c *crawler) storeTopic() string   { return storeTopic(c.name) }

func storeTopic(crawl string) string { return crawl + ".store" }

// visit is the message of a request. Its key is one of the lanes of its host, and its URL is unique in the run.
func (c *crawler) visit(u *url.URL, r request) pawl.Message {
	r.URL = u.String()
	body, _ := json.Marshal(r) // texts and numbers always have a form
	key := keyOf(u)
	lanes := uint64(c.options.PerHost)
	if c.options.Delay > 0 {
		lanes = 1 // the pause between two requests is that of their lane
	}
	lane := site(u) + "#" + strconv.FormatUint(binary.BigEndian.Uint64(key[:8])%lanes, 10)
	return pawl.Message{
		Topic: c.requestTopic(), Key: []byte(lane), Body: body,
		Unique: pawl.Unique{Scope: scopeOf(c.run), Key: hex.EncodeToString(key[:]), For: pawl.Forever},
	}
}

// scopeOf names the set of URLs that a run has seen.
func scopeOf(run string) string { return "crawl/" + run }

// Handle fetches a page, and emits the requests for its links together with the outcome.
func (c *crawler) Handle(ctx context.Context, d *pawl.Delivery) error {
	var r request
	if err := json.Unmarshal(d.Body, &r); err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	u, err := weburl.Parse(nil, r.URL)
	if err != nil {
		return pawl.Permanent(pawl.OfKind(KindRequest, err))
	}
	if other, err := c.ofAnotherRun(ctx, d, u, r); other {
		return err
	}
	if r.Sitemap == 0 {
		c.seen.add(keyOf(u))
	}
	if c.full() {
		return c.done(d, c.left(&r, whyFull))
	}
	h := c.hosts.at(u)
	if c.tires(u, r.Stale) {
		return c.done(d, c.left(&r, whyDull))
	}
	if r.Idle && c.news.tally(place(u)) > maxIdle {
		return c.done(d, c.left(&r, whyIdle))
	}
	asked := h.known() == nil && !c.options.IgnoreRobots
	wait := h.reserve(0)
	if asked && wait <= 0 { // other processes may know that the host takes no requests now, not even for robots.txt
		wait, err = c.reserve(ctx, h, u, 0, false)
	}
	if err != nil || wait > 0 {
		return leave(u, wait, err)
	}
	rules, err := c.robots(ctx, h, u)
	switch {
	case err != nil:
		return c.explain(err, u)
	case rules.denied != nil && r.Depth == 0 && r.Sitemap == 0:
		// Without its seeds there is no crawl, so excluding one is an error.
		return c.explain(pawl.Permanent(pawl.OfKind(KindTransfer,
			fmt.Errorf("robots.txt cannot be read, so nothing there is allowed: %w", rules.denied))), u)
	case rules.denied != nil:
		return c.done(d, c.left(&r, "robots.txt cannot be read"))
	case r.Sitemap == 0 && !rules.Allows(u):
		return c.done(d, outcome{Kind: kindExcluded, URL: r.URL, Why: "robots.txt disallows it"})
	}
	delay := max(c.options.Delay, rules.Delay, h.strained())
	if asked && delay > 0 { // robots.txt was a request, too
		h.back(delay)
		return pawl.Release(delay, site(u)+" was asked for robots.txt")
	}
	if wait, err = c.reserve(ctx, h, u, delay, r.Cookies); err != nil || wait > 0 {
		return leave(u, wait, err)
	}
	d.Hold(delay)
	h.inFlight.Add(1)
	defer h.inFlight.Add(-1)
	if r.Sitemap > 0 {
		err = c.readSitemap(ctx, d, u, &r)
	} else if err = c.ask(ctx, d, u, &r, delay); err == nil {
		c.sitemaps(d, &r, rules)
	}
	if f := pawl.Describe(err); err != nil && f.Class == pawl.ClassThrottled && f.Kind != KindProxy {
		if wrong := c.hold(ctx, h, u, max(f.After, time.Second)); wrong != nil {
			err = errors.Join(err, wrong)
		}
	}
	if err != nil {
		c.count.failed.Add(1)
		if pawl.Describe(err).Kind != KindProxy {
			h.failed.Add(1)
		}
		err = c.explain(err, u)
	}
	return err
}

// leave gives a request back until its host may be contacted, or until that can be determined.
func leave(u *url.URL, wait time.Duration, err error) error {
	if err != nil {
		return pawl.Release(time.Second, err.Error())
	}
	return pawl.Release(wait, site(u)+" must not be contacted until then")
}

// replayed takes a dead letter of an earlier run into this one, which may know its URL already.
func (c *crawler) replayed(d *pawl.Delivery, u *url.URL, r request) error {
	o := outcome{Kind: kindReplayed}
	if c.scope.has(u) && (c.options.Depth < 0 || r.Depth <= c.options.Depth) {
		o.Found = 1
		d.Emit(c.visit(u, r))
	} else {
		o.LeftOut.add(whyScope, u)
	}
	return c.done(d, o)
}

// left is the outcome of a request that is not made. A sitemap is not a page, and not counted.
func (c *crawler) left(r *request, why string) outcome {
	if r.Sitemap > 0 {
		return outcome{Kind: kindMoved}
	}
	return outcome{Kind: kindExcluded, URL: r.URL, Why: why}
}

// explain states facts about a failure, for listings of attempts and dead letters.
func (c *crawler) explain(err error, u *url.URL) error {
	attrs := map[string]string{"host": site(u), "url": u.String(), "module": c.name,
		"stage": cmp.Or(pawl.Describe(err).Attrs["stage"], "download")}
	if s, ok := errors.AsType[*statusError](err); ok {
		attrs["http_status"] = strconv.Itoa(s.status)
	}
	return pawl.WithAttrs(err, attrs)
}

// full reports whether enough pages are stored.
func (c *crawler) full() bool { return c.options.MaxPages > 0 && c.stored.Load() >= c.options.MaxPages }

// ask fetches a page and follows redirects that lead back to the same URL, usually with a cookie. All others are
// requests of their own, in the lanes of their hosts.
func (c *crawler) ask(ctx context.Context, d *pawl.Delivery, u *url.URL, r *request, delay time.Duration) error {
	c.count.inFlight.Add(1)
	defer c.count.inFlight.Add(-1)
	seen := append([]string{}, r.Chain...)
	leads := func(to *url.URL) bool {
		return slices.ContainsFunc(seen, func(text string) bool {
			u, err := url.Parse(text)
			return err == nil && keyOf(u) == keyOf(to)
		})
	}
	for hops := len(r.Chain); ; hops++ {
		c.count.requests.Add(1)
		began := time.Now()
		a, err := c.fetch.get(ctx, u)
		c.hosts.at(u).answered(time.Since(began), err)
		if err != nil {
			return err
		}
		if a.location == nil {
			return c.page(ctx, d, u, r, a)
		}
		if hops >= maxRedirects {
			return pawl.Permanent(pawl.OfKind(KindRedirect, fmt.Errorf("more than %d redirects", maxRedirects)))
		}
		seen = append(seen, u.String())
		if !leads(a.location) {
			return c.moved(ctx, d, r, a, seen)
		}
		u = a.location
		if err := store.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// moved hands a request on to where a redirect leads.
func (c *crawler) moved(ctx context.Context, d *pawl.Delivery, r *request, a *answer, chain []string) error {
	to := a.location
	if !c.scope.has(to) {
		if !c.isSeed(r) {
			return c.done(d, outcome{Kind: kindExcluded, URL: r.URL, Why: "a redirect out of scope"})
		}
		if err := c.marked.adopt(ctx, c.scope, to); err != nil {
			return err
		}
	}
	if !c.options.AllowPrivate && privateHost(to) {
		return pawl.Permanent(pawl.OfKind(KindPrivate, errPrivate))
	}
	next := *r
	next.Chain, next.Cookies = chain, r.Cookies || a.setsCookies()
	d.Emit(c.visit(to, next))
	return c.done(d, outcome{Kind: kindMoved, URL: r.URL, Next: urlKeys{keyOf(to)}})
}

// isSeed: a seed may lead to another host, such as example.com to www.example.com, whose pages are meant then.
func (c *crawler) isSeed(r *request) bool { return r.Depth == 0 && c.options.Scope != ScopePrefix }

// page emits the links of a page, and the page.
func (c *crawler) page(ctx context.Context, d *pawl.Delivery, u *url.URL, r *request, a *answer) error {
	record, p, err := c.record(ctx, u, r, a)
	if err != nil {
		return err
	}
	if c.options.MaxPages > 0 && !p.asks.noIndex && c.stored.Add(1) > c.options.MaxPages {
		c.stored.Add(-1)
		return c.done(d, outcome{Kind: kindExcluded, URL: r.URL, Why: whyFull})
	}
	o := outcome{Kind: kindPage, URL: r.URL, Page: record, Markdown: p.markdown}
	if p.asks.noIndex {
		o = outcome{Kind: kindExcluded, URL: r.URL, Why: "the page says noindex"}
	}
	bodies, repeated := again(u, a.body, r.Bodies)
	fresh := c.news.add(realm(u), p.words.groups)
	stale := len(p.links) > 0 && fresh < fewNews
	idle := c.idles(u, r, &p, fresh, &o)
	o.Dull, o.From = stale, r.From
	c.news.count(u, &o)
	why := ""
	switch {
	case p.asks.noFollow:
		why = whyNoFollow
	case repeated:
		why = whySame
	case c.news.again(realm(u), &p.words):
		why = whyText
	}
	if why != "" {
		o.LeftOut.add(why, p.links...)
		p.links = nil
	}
	at := place(u)
	follow := func(links []*url.URL, depth int64) (keys urlKeys) {
		for _, link := range links {
			to := request{Depth: depth, Alike: alike(u, link, r.Alike), Bodies: bodies,
				Cookies: a.setsCookies(), Idle: idle && place(link) == at, From: at}
			if link == p.refresh {
				to.Refreshed = r.Refreshed + 1
			}
			if stale {
				to.Stale, to.Empty = r.Stale, r.Empty+1
				if longer(u, link) {
					to.Stale++
				}
			}
			if c.follow(d, &o, link, to) {
				keys = append(keys, keyOf(link))
			}
		}
		return keys
	}
	o.Next, o.Links = follow(p.next, r.Depth), follow(p.links, r.Depth+1)
	dispatch.Step(ctx, storing, dispatch.Started)
	c.count.pages.Add(1)
	c.count.bytes.Add(int64(len(a.body)))
	if err := c.done(d, o); err != nil {
		return policy.At(err, storing)
	}
	dispatch.Step(ctx, storing, dispatch.Completed)
	return nil
}

// follow emits a request for a link, unless it leads out of the crawl or the request is surely there. It
// reports whether the link leads to a page of the crawl, perhaps one that is too deep from here.
func (c *crawler) follow(d *pawl.Delivery, o *outcome, link *url.URL, to request) bool {
	why := ""
	switch {
	case !c.scope.has(link):
		why = whyScope
	case !c.options.AllowPrivate && privateHost(link):
		why = whyPrivate
	case to.Stale > maxStale:
		why = whyStale
	case c.tires(link, to.Stale):
		why = whyDull
	case to.Idle && c.news.tally(place(link)) > maxIdle:
		why = whyIdle
	case to.Refreshed > maxRedirects:
		why = whyRefreshed
	default:
		why = trap(link, to.Alike, to.Empty)
	}
	switch {
	case why != "":
		o.LeftOut.add(why, link)
		return false
	case c.options.Depth >= 0 && to.Depth > c.options.Depth:
		o.Deeper = append(o.Deeper, link.String())
		return true
	}
	o.Found++
	if !c.seen.has(keyOf(link)) {
		d.Emit(c.visit(link, to))
	}
	return true
}

// record reads a page.
func (c *crawler) record(ctx context.Context, u *url.URL, r *request, a *answer) (*Record, page, error) {
	dispatch.Step(ctx, parser, dispatch.Started)
	product := robotstxt.Product(c.options.UserAgent)
	if c.options.IgnoreRobots {
		product = ""
	}
	p := readPage(u, a.header, a.body, product)
	next, err := c.extract(ctx, a, &p)
	if err != nil {
		return nil, p, err
	}
	if err = c.program(ctx, u, a, &p); err != nil {
		return nil, p, err
	}
	for _, ref := range next {
		if link, err := weburl.Parse(p.base, ref); err == nil {
			p.follows(link)
		}
	}
	dispatch.Step(ctx, parser, dispatch.Completed)
	if c.options.Markdown {
		if p.markdown, err = markdownOf(a.body, &p); err != nil {
			return nil, p, pawl.Permanent(pawl.OfKind(KindParser, err))
		}
	}
	record := &Record{
		URL: r.URL, FinalURL: u.String(), Status: a.status, Depth: r.Depth, Title: p.title, ContentType: p.kind,
		Charset: p.charset,
		Bytes:   int64(len(a.body)), SHA256: a.sha256, FetchedAt: time.Now().UTC(), ETag: a.etag,
		Links: len(p.links) + len(p.next), Fields: p.fields, Items: p.items,
	}
	return record, p, nil
}

// done emits the outcome of a request.
func (c *crawler) done(d *pawl.Delivery, o outcome) error {
	body, err := json.Marshal(o)
	if err != nil {
		return pawl.Permanent(pawl.OfKind(KindDataStore, errors.New("the page cannot be written as JSON")))
	}
	if len(body) > pawl.MaxBody {
		return pawl.Permanent(pawl.OfKind(KindDataStore,
			fmt.Errorf("the page takes %d bytes in the store; the limit is %d", len(body), pawl.MaxBody)))
	}
	d.Emit(pawl.Message{Topic: c.storeTopic(), Body: body})
	return nil
}
