package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/crawl/extract"
	"github.com/pawl-dev/pawl/pipeline/crawl/robotstxt"
	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

// Options say what is crawled, and how.
type Options struct {
	Seeds        []string
	Scope        string
	Depth        int64 // -1: no bound
	MaxPages     int64 // 0: no bound
	Concurrency  int
	PerHost      int
	Delay        time.Duration
	Timeout      time.Duration
	MaxBytes     int64
	UserAgent    string
	Headers      map[string]string
	Proxies      []string // URLs
	IgnoreRobots bool
	AllowPrivate bool
	Cache        string // a folder; off: none
	Markdown     bool   // pages are exported as Markdown
	State        string // the URL of the store that the crawl is in; empty: the daemon's, or the command line's
	// Extract reads fields of pages, and links to follow at the same depth; nil reads none.
	Extract *extract.Set
}

// Defaults are the options of a crawl that states nothing but where it begins.
func Defaults(seeds ...string) Options {
	return Options{
		Seeds: seeds, Scope: ScopeHost, Depth: -1, Concurrency: 16, PerHost: 2, Timeout: 20 * time.Second,
		MaxBytes:  10 << 20,
		UserAgent: defaultAgent,
		Cache:     defaultCache,
	}
}

// fields are the keys of a section of the configuration.
func fields() []pipeline.Field {
	return []pipeline.Field{
		{Name: "module", DefaultDoc: "none",
			Doc: "A file with a section of this kind: its keys count where this one does not state them. Its name is " +
				"relative to this file's."},
		{Name: "seeds", Type: pipeline.Texts, DefaultDoc: "those of the command line", Doc: "The URLs to begin with."},
		{Name: "scope", Type: pipeline.Choice, Choices: []string{ScopeHost, ScopeDomain, ScopePrefix, ScopeAll},
			Default: ScopeHost, Doc: "Which links are followed."},
		{Name: "depth", Type: pipeline.Int, DefaultDoc: "no bound",
			Doc: "The most links between a seed and a page; a seed has depth 0."},
		{Name: "max_pages", Type: pipeline.Int, DefaultDoc: "no bound", Doc: "How many pages are stored at most."},
		{Name: "concurrency", Type: pipeline.Int, Default: "16", Min: 1, Max: 10_000, Doc: "Requests in flight."},
		{Name: "per_host", Type: pipeline.Int, Default: "2", Min: 1, Max: 1000, Doc: "Requests in flight to one host."},
		{Name: "delay", Type: pipeline.Duration, Default: "0s", Doc: "The time between two requests to a host."},
		{Name: "timeout", Type: pipeline.Duration, Default: "20s", Min: int64(time.Millisecond),
			Doc: "How long one request may take; it also ends after ten seconds without a byte."},
		{Name: "max_bytes", Type: pipeline.Size, Default: "10MiB", Min: 1,
			Doc: "The largest body; a larger one is a dead letter."},
		{Name: "user_agent", Default: defaultAgent,
			Doc: "The User-Agent. What comes before the first / names the group of robots.txt that counts."},
		{Name: "headers", Type: pipeline.Table, Of: &pipeline.Field{Secret: true},
			Doc: "Headers of requests. Those that may be secret (all but Accept and the like, Cache-Control, DNT, " +
				"From, Pragma, Referer, Sec-… and User-Agent) are sent to the domains of the seeds only."},
		{Name: "proxies", Type: pipeline.Texts, Secret: true, Check: checkProxy, DefaultDoc: "that of the environment",
			Doc: "The URLs of proxies: http://, https:// or socks5://, with user and password. Requests go in turn through " +
				"those that work."},
		{Name: "ignore_robots", Type: pipeline.Bool, Default: "false",
			Doc: "Ask for what robots.txt disallows, too, and ignore noindex and nofollow of pages."},
		{Name: "allow_private", Type: pipeline.Bool, Default: "false",
			Doc: "Ask addresses of private networks and of this machine, too."},
		{Name: "cache", Default: defaultCache,
			Doc: "The folder that keeps pages, so that a later crawl fetches only changed ones; `off` keeps none."},
		{Name: "fields", Type: pipeline.Table, Fields: ruleFields(), DefaultDoc: "none",
			Doc: "What is read from each page, by name."},
		{Name: "items", Type: pipeline.Object, Fields: selectors(), DefaultDoc: "none",
			Doc: "The parts of a page that the fields are read from, such as `{css: .product}` or `{json: '$.offers[*]'}`. " +
				"Each is a record."},
		{Name: "next", Type: pipeline.Object, Fields: selectors(), DefaultDoc: "none",
			Doc: "Links to the page that follows, such as `{css: a.next}`. They are followed whatever the depth."},
		{Name: "state", Type: pipeline.StoreURL, DefaultDoc: "the daemon's store",
			Doc: "The store that the crawl is in: requests, what was seen, and results. It is needed where the daemon's is " +
				"Kafka, which cannot keep them."},
		{Name: "out", Default: "", DefaultDoc: "NAME.jsonl",
			Doc: "Where results go: .jsonl, .csv, .db (SQLite), a folder of Markdown, which a slash at the end says, or the " +
				"table pages of a database: `sqlite:FILE` or `postgres://…`."},
	}
}

// defaultCache is where answers are kept, noCache the value that keeps none.
const (
	defaultCache = ".pawl/crawl"
	noCache      = "off"
)

const defaultAgent = "Pawl/1.0 (+https://github.com/pawl-dev/pawl)"

// sectionOptions are those of a section of the configuration.
func sectionOptions(s pipeline.Section) (Options, error) {
	o := Options{
		Seeds: s.Texts("seeds"), Scope: s.Text("scope"), Depth: -1, MaxPages: s.Int("max_pages"),
		Concurrency: int(s.Int("concurrency")),
		PerHost:     int(s.Int("per_host")), Delay: s.Duration("delay"), Timeout: s.Duration("timeout"),
		MaxBytes:  s.Int("max_bytes"),
		UserAgent: s.Text("user_agent"), Headers: s.Table("headers"), Proxies: s.Texts("proxies"),
		IgnoreRobots: s.Bool("ignore_robots"),
		AllowPrivate: s.Bool("allow_private"),
		Cache:        s.Text("cache"), State: s.Text("state"),
	}
	if s.Has("depth") {
		o.Depth = s.Int("depth")
	}
	var err error
	o.Extract, err = extractOf(s)
	return o, err
}

// check reports everything that is wrong, and gives seeds their canonical form.
func (o *Options) check() ([]*url.URL, error) {
	var errs []error
	var seeds []*url.URL
	for _, text := range o.Seeds {
		if !strings.Contains(text, "://") {
			errs = append(errs, fmt.Errorf("%q is not a URL; did you mean https://%s?", text, text))
			continue
		}
		u, err := weburl.Parse(nil, text)
		given, _ := url.Parse(text)
		switch {
		case err != nil:
			errs = append(errs, err)
		case given != nil && given.User != nil:
			errs = append(errs, fmt.Errorf("the user and password of %s are not sent: leave them out, and give "+
				"--header 'Authorization=Basic …', in a section headers", u))
		case !o.AllowPrivate && privateHost(u):
			errs = append(errs, fmt.Errorf("%s is of this machine or a private network; "+
				"--allow-private allows it, in a section allow_private", u.Host))
		case !slices.ContainsFunc(seeds, func(s *url.URL) bool { return s.String() == u.String() }):
			seeds = append(seeds, u)
		}
	}
	for name, value := range o.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n") || strings.ContainsAny(value, "\r\n") {
			errs = append(errs, fmt.Errorf("header %q cannot be sent", name))
		}
	}
	for i, text := range o.Proxies {
		if err := checkProxy(text); err != nil {
			errs = append(errs, fmt.Errorf("proxy %d %w", i+1, err))
		}
	}
	if len(o.Seeds) == 0 {
		errs = append(errs, errors.New("there is no URL to begin with"))
	}
	if robotstxt.Product(o.UserAgent) == "" {
		errs = append(errs, errors.New("the User-Agent has to begin with a name, such as MyCrawler/1.0"))
	}
	return seeds, errors.Join(errs...)
}

// privateHost reports whether a host is private without a lookup.
func privateHost(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && private(ip) || u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost")
}

// readHeaders reads k=v and k: v.
func readHeaders(lines []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, "=")
		if i := strings.IndexByte(line, ':'); i >= 0 && (!ok || i < len(name)) {
			name, value, ok = line[:i], line[i+1:], true
		}
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q is not NAME=VALUE", line)
		}
		headers[http.CanonicalHeaderKey(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return headers, nil
}
