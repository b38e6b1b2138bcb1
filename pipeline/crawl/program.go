package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Module is a crawl that is described by a program. Its options are those of a module in YAML; Parse reads what
// selectors cannot.
type Module struct {
	// Name names its topics, NAME.request and NAME.store: modules that share a store have different ones. Empty is
	// [Name].
	Name string
	// Options begin with [Defaults].
	Options
	// Out is where records go, as with --out of the command; empty is NAME.jsonl.
	Out string
	// Parse reads a page, after the selectors of Extract. It is called concurrently, and again for a page whose process
	// was killed. An error makes a dead letter of the page's request, which is tried again when it is replayed; one of
	// [pawl.Throttled] keeps the host waiting.
	Parse func(ctx context.Context, p *Page) error
}

// Page is a page that a module reads.
type Page struct {
	URL    *url.URL // where it was found, after redirects
	Status int
	Header http.Header
	Title  string
	Body   []byte // text is in UTF-8
	// Fields are those that selectors read. Parse may change them; the values have to have a form in JSON.
	Fields map[string]any
	// Items are those of a page with several: each is a record of its own, with these fields.
	Items []map[string]any
	// Links are those of the page, each once. Those that Parse leaves here are followed, as far as the scope and the
	// other options go.
	Links []*url.URL

	base *url.URL
	next []*url.URL
}

// Follow adds a link, which may be relative to the page.
func (p *Page) Follow(ref string) error {
	u, err := weburl.Parse(p.base, ref)
	if err == nil {
		p.Links = append(p.Links, u)
	}
	return err
}

// Next adds a link that has the depth of this page, such as that to the next page of a list.
func (p *Page) Next(ref string) error {
	u, err := weburl.Parse(p.base, ref)
	if err == nil {
		p.next = append(p.next, u)
	}
	return err
}

// Run crawls modules concurrently over one store, and returns their summaries, in order, when all pages are in their
// files. A crawl that was interrupted continues. Requests that failed for good are counted in [Summary.Dead], and
// are not an error. When ctx is cancelled, the requests in flight are carried out or given back, and the error says
// which crawls are not finished. A nil log is [slog.Default].
func Run(ctx context.Context, s store.Store, log *slog.Logger, modules ...Module) ([]Summary, error) {
	matrix, err := policy.NewMatrix(nil, Rules()...)
	if err != nil {
		return nil, err
	}
	modules = slices.Clone(modules)
	host := workplace{policy: matrix, log: cmp.Or(log, slog.Default())}
	names := map[string]bool{}
	var errs []error
	for i := range modules {
		m := &modules[i]
		m.Name = cmp.Or(m.Name, Name)
		m.Out = cmp.Or(m.Out, m.Name+".jsonl")
		_, wrong := m.check()
		if names[m.Name] {
			wrong = errors.Join(wrong, errors.New("another module has the same name"))
		}
		if wrong = errors.Join(wrong, pawl.ValidTopic(m.Name), formatOf(m.Out)); wrong != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", m.Name, wrong))
		}
		names[m.Name] = true
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	sums, errs := make([]Summary, len(modules)), make([]error, len(modules))
	var all sync.WaitGroup
	for i := range modules {
		all.Go(func() {
			if sums[i], errs[i] = modules[i].run(ctx, s, host); errs[i] != nil {
				errs[i] = fmt.Errorf("crawl %s: %w", modules[i].Name, errs[i])
			}
		})
	}
	all.Wait()
	return sums, errors.Join(errs...)
}

func (m *Module) run(ctx context.Context, s store.Store, host workplace) (Summary, error) {
	m.Markdown = isFolder(m.Out)
	seeds, err := m.check()
	if err != nil {
		return Summary{}, err
	}
	if err := probe(m.Out); err != nil {
		return Summary{}, err
	}
	p, r, c, err := start(ctx, s, m.Name, seeds, m.Options, true, host.log)
	if err != nil {
		return Summary{}, err
	}
	c.parse = m.Parse
	d, err := c.exhaust(ctx, p, host)
	if err != nil {
		return Summary{}, err
	}
	sum, err := conclude(ctx, p, c, r, d, m.Out)
	if err != nil {
		return Summary{}, err
	}
	return *sum, nil
}

// program lets the module's own code read a page.
func (c *crawler) program(ctx context.Context, u *url.URL, a *answer, p *page) error {
	if c.parse == nil {
		return nil
	}
	body := p.text(a.body)
	at := &Page{
		URL: u, Status: a.status, Header: a.header, Title: p.title, Body: body, Fields: maps.Clone(p.fields),
		Items: p.items, Links: p.links, base: p.base,
	}
	if at.Fields == nil {
		at.Fields = map[string]any{}
	}
	if err := c.parse(ctx, at); err != nil {
		return pawl.WithAttrs(policy.At(pawl.OfKind(KindParser, err), parser),
			map[string]string{"stage": "parser"})
	}
	p.links = nil
	seen := map[string]bool{}
	for _, link := range at.Links {
		p.link(at.base, link.String(), seen)
	}
	for _, link := range at.next {
		p.follows(link)
	}
	p.fields, p.items = at.Fields, at.Items
	return nil
}

// workplace is what a crawl gets from its program.
type workplace struct {
	policy policy.Policy
	owner  string // empty: a random name
	log    *slog.Logger
}
