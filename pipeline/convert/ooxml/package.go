// Package ooxml reads the documents of Word, PowerPoint and Excel.
package ooxml

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// file is a document: an archive of parts, with relations between them.
type file struct {
	*doc.Archive
	ctx  context.Context
	d    doc.Document
	w    *markdown.Writer
	main string // path of the main part
	rels map[string]map[string]relation
	// empty: nothing but names of sheets is written
	empty bool
}

type relation struct {
	kind     string // last word of its type: image, hyperlink …
	target   string // a path in the archive, or a URL
	external bool
}

// convert converts a document, whose main part is usually where fallback says, by what writes it.
func convert(ctx context.Context, d doc.Document, fallback string, write func(*file) error) (doc.Markdown, error) {
	a, err := doc.OpenZip(&d)
	if err != nil {
		return doc.Markdown{}, err
	}
	f := &file{Archive: a, ctx: ctx, d: d, w: new(markdown.Writer), main: fallback,
		rels: map[string]map[string]relation{}}
	if _, err := f.relations(""); err != nil {
		return doc.Markdown{}, err
	}
	if main := f.related("", "officeDocument"); a.Has(main) {
		f.main = main
	}
	if !a.Has(f.main) {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it has no %s", f.main)
	}
	if err := write(f); err != nil {
		return doc.Markdown{}, err
	}
	core, _ := f.Tree(f.related("", "core-properties"))
	return doc.Markdown{Text: f.w.String(), Title: core.Child("title").Content(), Empty: f.empty}, nil
}

// mainTree reads the main part, and its relations.
func (f *file) mainTree() (*markup.Node, map[string]relation, error) {
	root, err := f.Tree(f.main)
	if err != nil {
		return nil, nil, err
	}
	rels, err := f.relations(f.main)
	return root, rels, err
}

// relations are those of a part, by their id.
func (f *file) relations(part string) (map[string]relation, error) {
	if rels, ok := f.rels[part]; ok {
		return rels, nil
	}
	dir, base := path.Split(part)
	root, err := f.Tree(dir + "_rels/" + base + ".rels")
	if err != nil {
		return nil, err
	}
	rels := map[string]relation{}
	for n := range root.Children {
		r := relation{path.Base(n.Attr("Type")), n.Attr("Target"), n.Attr("TargetMode") == "External"}
		if !r.external && !strings.HasPrefix(r.target, "/") {
			r.target = path.Join("/", dir, r.target)
		}
		if !r.external {
			r.target = strings.TrimPrefix(path.Clean(r.target), "/")
		}
		rels[n.Attr("Id")] = r
	}
	f.rels[part] = rels
	return rels, nil
}

// linked is the part that a part names by the id of a relation; nil if there is none that can be read.
func (f *file) linked(part, id string) *markup.Node {
	rels, _ := f.relations(part)
	root, _ := f.Tree(rels[id].target)
	return root
}

// allRelated are the parts that a part has relations of a kind to, sorted.
func (f *file) allRelated(part, kind string) []string {
	rels, _ := f.relations(part)
	var all []string
	for _, r := range rels {
		if r.kind == kind {
			all = append(all, r.target)
		}
	}
	slices.Sort(all)
	return all
}

// related is the first of them; empty if there is none.
func (f *file) related(part, kind string) string {
	if all := f.allRelated(part, kind); len(all) > 0 {
		return all[0]
	}
	return ""
}

// elements calls each for the elements of a part, one after the other, so that only one is held as a tree. Elements
// whose name is to be entered are not such themselves; what is in them is.
func (f *file) elements(part string, enter func(name string) bool, each func(*markup.Node)) error {
	text, err := f.Text(part)
	if err != nil {
		return err
	}
	s := markup.NewXML(text)
	var tree markup.Tree
	for {
		switch s.Next() {
		case markup.End:
			return doc.Broken(part, s.Err)
		case markup.Open:
			if enter(s.Name) {
				continue
			}
			n, err := tree.Read(s)
			if err != nil {
				return doc.Broken(part, err)
			}
			if f.ctx.Err() != nil {
				return f.ctx.Err()
			}
			each(n)
		}
	}
}

// picture writes an image of a part.
func (f *file) picture(part, id, alt string) {
	rels, _ := f.relations(part)
	r, ok := rels[id]
	if !ok && alt == "" {
		return
	}
	src := path.Base(r.target)
	switch {
	case !ok:
		src = ""
	case r.external:
		src = r.target
	case f.d.Image != nil:
		if data, err := f.Bytes(r.target); err == nil && data != nil {
			src = f.d.Image(path.Base(r.target), data)
		}
	}
	f.w.Image(alt, src, "")
}

// embedded writes a document that is embedded in a part, such as a workbook on a slide. It reports whether there is
// one.
func (f *file) embedded(part, id string) bool {
	rels, _ := f.relations(part)
	r := rels[id]
	if r.kind == "oleObject" || r.external {
		return false
	}
	data, err := f.Bytes(r.target)
	if err != nil || data == nil {
		return false
	}
	f.w.End()
	return f.d.Part(f.ctx, f.w, "", doc.Document{Name: path.Base(r.target), Data: data}) == nil
}

// whole is the whole number that a text is; otherwise if it is none.
func whole(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return otherwise
}

// at is an element of a list; zero beyond its ends.
func at[T any](list []T, i int) (v T) {
	if i >= 0 && i < len(list) {
		v = list[i]
	}
	return v
}

// on reports whether a switch such as <w:b w:val="0"/> is there and on.
func on(n *markup.Node) bool {
	if n == nil {
		return false
	}
	switch v, ok := n.Lookup("val"); v {
	case "0", "false", "off", "none":
		return !ok
	}
	return true
}
