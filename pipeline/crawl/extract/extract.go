// Package extract reads fields of a page, and the pages that follow it, by selectors: CSS, XPath, JSON paths and
// regular expressions.
package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/PuerkitoBio/goquery"
	"github.com/andybalholm/cascadia"
	"github.com/antchfx/htmlquery"
	"github.com/antchfx/xpath"
)

// Rule selects a value. Exactly one of CSS, XPath, JSON and Regexp is set.
type Rule struct {
	CSS    string // the text of the first element, or its attribute Attr
	XPath  string // the text of the first node: //a/@href is an attribute
	JSON   string // $.offers[0].price, in a JSON document or in the JSON that an HTML page embeds
	Regexp string // the first group of the first match in the source, or all of it
	Attr   string // with CSS
	All    bool   // a list of all matches instead of the first

	// What is done with a text: matches of Remove are left out of it, and it gets the form As; empty is [AsText].
	Remove string
	As     string
	// Required makes a page without the value bad input.
	Required bool
}

// Set is the rules of a module, compiled. It is safe for concurrent use.
type Set struct {
	fields map[string]field
	next   selector                               // nil: none
	items  func(d *document) ([]*document, error) // nil: a page is one
}

// New compiles rules. It reports everything that is wrong at once. next, if not nil, selects links to follow; with CSS
// they are attributes href unless it names another one. items, if not nil, selects the parts of a page that have the
// fields: elements, or values of JSON.
func New(fields map[string]Rule, next, items *Rule) (*Set, error) {
	s := &Set{fields: make(map[string]field, len(fields))}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f, err := compileField(fields[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("fields.%s: %w", name, err))
		}
		s.fields[name] = f
	}
	if next != nil {
		r := *next
		r.All = true
		if r.CSS != "" && r.Attr == "" {
			r.Attr = "href"
		}
		sel, err := compile(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("next: %w", err))
		}
		s.next = sel
	}
	if items != nil {
		var err error
		if s.items, err = compileItems(*items); err != nil {
			errs = append(errs, fmt.Errorf("items: %w", err))
		}
	}
	return s, errors.Join(errs...)
}

// Names are those of the fields, in order. They may be asked of nil.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.fields))
}

// HasItems reports whether a page has any number of items, and not the fields itself.
func (s *Set) HasItems() bool { return s.items != nil }

// Read applies the rules to a body in UTF-8, whose links are relative to base. It returns the fields of each item, and
// what a rule does not find is left out of them. An error is that the page could not be read as what the rules need: it
// has no fields then, but it may have links.
func (s *Set) Read(base *url.URL, isJSON bool, body []byte) (items []map[string]any, next []string, err error) {
	d := &document{body: body, json: isJSON}
	if s.next != nil {
		values, err := s.next(d)
		if err != nil {
			return nil, nil, fmt.Errorf("next: %w", err)
		}
		for _, v := range values {
			if text, ok := v.(string); ok && strings.TrimSpace(text) != "" {
				next = append(next, strings.TrimSpace(text))
			}
		}
	}
	parts := []*document{d}
	if s.items != nil {
		if parts, err = s.items(d); err != nil {
			return nil, next, fmt.Errorf("items: %w", err)
		}
	}
	for _, part := range parts {
		fields, err := s.readItem(base, part)
		if err != nil {
			return nil, next, err
		}
		items = append(items, fields)
	}
	return items, next, nil
}

func (s *Set) readItem(base *url.URL, d *document) (map[string]any, error) {
	fields := make(map[string]any, len(s.fields))
	for _, name := range s.Names() {
		f := s.fields[name]
		values, err := f.read(base, d)
		switch {
		case err != nil:
			return nil, fmt.Errorf("field %s: %w", name, err)
		case f.all && len(values) > 0:
			fields[name] = values
		case len(values) > 0:
			fields[name] = values[0]
		}
	}
	return fields, nil
}

// document is a body that is parsed when a rule needs it.
type document struct {
	body   []byte
	json   bool
	tree   *goquery.Document
	values []any // JSON documents in it
	parsed bool
}

func (d *document) html() (*goquery.Document, error) {
	if d.tree == nil {
		tree, err := goquery.NewDocumentFromReader(bytes.NewReader(d.body))
		if err != nil {
			return nil, fmt.Errorf("parse the page: %w", err)
		}
		d.tree = tree
	}
	return d.tree, nil
}

// objects are the JSON of a document: the document itself, or what scripts of an HTML page hold. A script that does
// not parse is none.
func (d *document) objects() ([]any, error) {
	if d.parsed {
		return d.values, nil
	}
	d.parsed = true
	if d.json {
		var v any
		if err := decode(d.body, &v); err != nil {
			return nil, fmt.Errorf("parse the page as JSON: %w", err)
		}
		d.values = []any{v}
		return d.values, nil
	}
	tree, err := d.html()
	if err != nil {
		return nil, err
	}
	tree.Find(`script[type="application/ld+json"], script[type="application/json"]`).Each(func(_ int,
		s *goquery.Selection) {
		var v any
		if decode([]byte(s.Text()), &v) == nil {
			d.values = append(d.values, v)
		}
	})
	return d.values, nil
}

// decode keeps numbers as they are written.
func decode(text []byte, v *any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// selector finds values in a document: texts, or values of JSON. One that is not for all may stop at the first.
type selector func(d *document) ([]any, error)

func compile(r Rule) (selector, error) {
	stated := 0
	for _, text := range []string{r.CSS, r.XPath, r.JSON, r.Regexp} {
		if text != "" {
			stated++
		}
	}
	switch {
	case stated != 1:
		return nil, errors.New("give one of css, xpath, json and regexp")
	case r.Attr != "" && r.CSS == "":
		return nil, errors.New("attr goes with css only")
	case r.CSS != "":
		m, err := cascadia.Compile(r.CSS)
		if err != nil {
			return nil, fmt.Errorf("css %q: %w", r.CSS, err)
		}
		return byCSS(m, r.Attr, r.All), nil
	case r.XPath != "":
		x, err := xpath.Compile(r.XPath)
		if err != nil {
			return nil, fmt.Errorf("xpath %q: %w", r.XPath, err)
		}
		return byXPath(x, r.All), nil
	case r.JSON != "":
		steps, err := parsePath(r.JSON)
		if err != nil {
			return nil, fmt.Errorf("json %q: %w", r.JSON, err)
		}
		return byJSON(steps), nil
	}
	x, err := regexp.Compile(r.Regexp)
	if err != nil {
		return nil, fmt.Errorf("regexp %q: %w", r.Regexp, err)
	}
	return byRegexp(x, r.All), nil
}

func byCSS(match goquery.Matcher, attr string, all bool) selector {
	return func(d *document) (values []any, err error) {
		tree, err := d.html()
		if err != nil {
			return nil, err
		}
		for _, s := range tree.FindMatcher(match).EachIter() {
			text, ok := s.Text(), true
			if attr != "" {
				text, ok = s.Attr(attr)
			}
			if ok {
				values = append(values, strings.Join(strings.Fields(text), " "))
			}
			if ok && !all {
				break
			}
		}
		return values, nil
	}
}

func byXPath(x *xpath.Expr, all bool) selector {
	return func(d *document) (values []any, err error) {
		tree, err := d.html()
		if err != nil || len(tree.Nodes) == 0 {
			return nil, err
		}
		found := x.Evaluate(htmlquery.CreateXPathNavigator(tree.Nodes[0]))
		nodes, ok := found.(*xpath.NodeIterator)
		if !ok { // a text, a number or a boolean: count(//li)
			return []any{found}, nil
		}
		for nodes.MoveNext() && (all || len(values) == 0) {
			values = append(values, strings.Join(strings.Fields(nodes.Current().Value()), " "))
		}
		return values, nil
	}
}

func byJSON(steps []step) selector {
	return func(d *document) (values []any, err error) {
		objects, err := d.objects()
		for _, o := range objects {
			values = walk(o, steps, values)
		}
		return values, err
	}
}

func byRegexp(x *regexp.Regexp, all bool) selector {
	limit := 1
	if all {
		limit = -1
	}
	return func(d *document) (values []any, err error) {
		for _, m := range x.FindAllSubmatch(d.body, limit) {
			values = append(values, string(m[min(1, len(m)-1)]))
		}
		return values, nil
	}
}
