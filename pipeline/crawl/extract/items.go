package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/PuerkitoBio/goquery"
	"github.com/andybalholm/cascadia"
	"github.com/antchfx/htmlquery"
	"github.com/antchfx/xpath"
	"golang.org/x/net/html"
)

// compileItems compiles the rule that selects the items of a page. Each is a document of its own.
func compileItems(r Rule) (func(d *document) ([]*document, error), error) {
	if _, err := compile(r); err != nil {
		return nil, err
	}
	var nodes func(tree *goquery.Document) []*html.Node
	switch {
	case r.Regexp != "" || r.Attr != "":
		return nil, errors.New("items are elements or values: give css, xpath or json")
	case r.JSON != "":
		steps, err := parsePath(r.JSON)
		return func(d *document) ([]*document, error) { return values(d, steps) }, err
	case r.CSS != "":
		match, err := cascadia.Compile(r.CSS)
		if err != nil {
			return nil, err
		}
		nodes = func(tree *goquery.Document) []*html.Node { return tree.FindMatcher(match).Nodes }
	default:
		x, err := xpath.Compile(r.XPath)
		if err != nil {
			return nil, err
		}
		nodes = func(tree *goquery.Document) []*html.Node { return htmlquery.QuerySelectorAll(tree.Nodes[0], x) }
	}
	return func(d *document) (items []*document, err error) {
		tree, err := d.html()
		if err != nil {
			return nil, err
		}
		for _, node := range nodes(tree) {
			var source bytes.Buffer // for regexp
			if err := html.Render(&source, node); err != nil {
				return nil, fmt.Errorf("an item of the page: %w", err)
			}
			top := &html.Node{Type: html.DocumentNode} // the item itself can be selected in it, and nothing outside
			if node.Parent != nil {
				node.Parent.RemoveChild(node)
			}
			top.AppendChild(node)
			items = append(items, &document{body: source.Bytes(), tree: goquery.NewDocumentFromNode(top)})
		}
		return items, nil
	}, nil
}

func values(d *document, steps []step) (items []*document, err error) {
	objects, err := d.objects()
	var all []any
	for _, o := range objects {
		all = walk(o, steps, all)
	}
	for _, v := range all {
		source, wrong := json.Marshal(v)
		items = append(items, &document{body: source, json: true, parsed: true, values: []any{v}})
		err = errors.Join(err, wrong)
	}
	return items, err
}
