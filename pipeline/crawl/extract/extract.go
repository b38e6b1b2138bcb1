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
	next   selector // nil: none
}

// New compiles rules. It reports everything that is wrong at once. next, if not nil, selects links to follow; with CSS
// they are attributes href unless it names another one.
func New(fields map[string]Rule, next *Rule) (*Set, error) {
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
	return s, errors.Join(errs...)
}

// Read applies the rules to a body in UTF-8, whose links are relative to base. What a rule does not find is left out of
// the fields. An error is that the page could not be read as what the rules need: it has no fields then, but it may
// have links.
func (s *Set) Read(base *url.URL, isJSON bool, body []byte) (fields map[string]any, next []string, err error) {
	d := &document{body: body, json: isJSON}
	if s.next != nil {
		values, err := s.next.find(d)
		if err != nil {
			return nil, nil, fmt.Errorf("next: %w", err)
		}
		for _, v := range values {
			if text, ok := v.(string); ok && strings.TrimSpace(text) != "" {
				next = append(next, strings.TrimSpace(text))
			}
		}
	}
	fields = make(map[string]any, len(s.fields))
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		f := s.fields[name]
		values, err := f.read(base, d)
		switch {
		case err != nil:
			return nil, next, fmt.Errorf("field %s: %w", name, err)
		case f.all() && len(values) > 0:
			fields[name] = values
		case len(values) > 0:
			fields[name] = values[0]
		}
	}
	return fields, next, nil
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

// selector finds values in a document: texts, or values of JSON.
type selector interface {
	find(d *document) ([]any, error)
	all() bool
}

type many bool

func (m many) all() bool { return bool(m) }

func compile(r Rule) (selector, error) {
	stated := 0
	for _, text := range []string{r.CSS, r.XPath, r.JSON, r.Regexp} {
		if text != "" {
			stated++
		}
	}
	switch {
	case stated != 1:
		return nil, errors.New("state one of css, xpath, json and regexp")
	case r.Attr != "" && r.CSS == "":
		return nil, errors.New("attr goes with css only")
	case r.CSS != "":
		m, err := cascadia.Compile(r.CSS)
		if err != nil {
			return nil, fmt.Errorf("css %q: %w", r.CSS, err)
		}
		return &byCSS{many(r.All), m, r.Attr}, nil
	case r.XPath != "":
		x, err := xpath.Compile(r.XPath)
		if err != nil {
			return nil, fmt.Errorf("xpath %q: %w", r.XPath, err)
		}
		return &byXPath{many(r.All), x}, nil
	case r.JSON != "":
		steps, err := parsePath(r.JSON)
		if err != nil {
			return nil, fmt.Errorf("json %q: %w", r.JSON, err)
		}
		return &byJSON{many(r.All), steps}, nil
	}
	x, err := regexp.Compile(r.Regexp)
	if err != nil {
		return nil, fmt.Errorf("regexp %q: %w", r.Regexp, err)
	}
	return &byRegexp{many(r.All), x}, nil
}

type byCSS struct {
	many
	match goquery.Matcher
	attr  string
}

func (b *byCSS) find(d *document) ([]any, error) {
	tree, err := d.html()
	if err != nil {
		return nil, err
	}
	var values []any
	for _, s := range tree.FindMatcher(b.match).EachIter() {
		text, ok := s.Text(), true
		if b.attr != "" {
			text, ok = s.Attr(b.attr)
		}
		if ok {
			values = append(values, strings.Join(strings.Fields(text), " "))
		}
		if ok && !b.all() {
			break
		}
	}
	return values, nil
}

type byXPath struct {
	many
	x *xpath.Expr
}

func (b *byXPath) find(d *document) ([]any, error) {
	tree, err := d.html()
	if err != nil {
		return nil, err
	}
	if len(tree.Nodes) == 0 {
		return nil, nil
	}
	var values []any
	switch v := b.x.Evaluate(htmlquery.CreateXPathNavigator(tree.Nodes[0])).(type) {
	case *xpath.NodeIterator:
		for v.MoveNext() {
			values = append(values, strings.Join(strings.Fields(v.Current().Value()), " "))
			if !b.all() {
				break
			}
		}
	default: // a text, a number or a boolean: count(//li)
		values = append(values, v)
	}
	return values, nil
}

type byJSON struct {
	many
	steps []step
}

func (b *byJSON) find(d *document) ([]any, error) {
	objects, err := d.objects()
	if err != nil {
		return nil, err
	}
	var values []any
	for _, o := range objects {
		values = walk(o, b.steps, values)
	}
	return values, nil
}

type byRegexp struct {
	many
	x *regexp.Regexp
}

func (b *byRegexp) find(d *document) ([]any, error) {
	limit := 1
	if b.all() {
		limit = -1
	}
	var values []any
	for _, m := range b.x.FindAllSubmatch(d.body, limit) {
		values = append(values, string(m[min(1, len(m)-1)]))
	}
	return values, nil
}
