// Package ooxml reads the documents of Word, PowerPoint and Excel.
package ooxml

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/markdown"
	"github.com/pawl-dev/pawl/markdown/markup"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// file is a document: an archive of parts, with relations between them.
type file struct {
	*doc.Archive
	d    doc.Document
	w    *markdown.Writer
	main string // path of the main part
	rels map[string]map[string]relation
}

type relation struct {
	kind     string // last word of its type: image, hyperlink …
	target   string // a path in the archive, or a URL
	external bool
}

// open opens a document whose main part is usually where fallback says.
func open(d doc.Document, fallback string) (*file, error) {
	a, err := doc.OpenZip(&d)
	if err != nil {
		return nil, err
	}
	f := &file{Archive: a, d: d, w: new(markdown.Writer), main: fallback, rels: map[string]map[string]relation{}}
	if _, err := f.relations(""); err != nil {
		return nil, err
	}
	if main := f.related("", "officeDocument"); a.Has(main) {
		f.main = main
	}
	if !a.Has(f.main) {
		return nil, doc.Fail(doc.KindCorrupt, "it has no %s", f.main)
	}
	return f, nil
}

// markdown is what was written, with the title of the document.
func (f *file) markdown() doc.Markdown {
	core, _ := f.tree(f.related("", "core-properties"))
	return doc.Markdown{Text: f.w.String(), Title: core.Child("title").Content()}
}

// relations are those of a part, by their id.
func (f *file) relations(part string) (map[string]relation, error) {
	if rels, ok := f.rels[part]; ok {
		return rels, nil
	}
	dir, base := path.Split(part)
	text, err := f.Text(dir + "_rels/" + base + ".rels")
	if err != nil {
		return nil, err
	}
	rels := map[string]relation{}
	s := markup.NewXML(text)
	for {
		t := s.Next()
		if t == markup.End {
			break
		}
		if t != markup.Open || s.Name != "Relationship" {
			continue
		}
		r := relation{kind: path.Base(s.Attr("Type")), target: s.Attr("Target"),
			external: s.Attr("TargetMode") == "External"}
		if !r.external {
			if !strings.HasPrefix(r.target, "/") {
				r.target = path.Join("/", dir, r.target)
			}
			r.target = strings.TrimPrefix(path.Clean(r.target), "/")
		}
		rels[s.Attr("Id")] = r
	}
	f.rels[part] = rels
	return rels, broken(part, s.Err)
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

// tree reads a whole part; nil if it is not there.
func (f *file) tree(part string) (*markup.Node, error) {
	if part == "" || !f.Has(part) {
		return nil, nil
	}
	text, err := f.Text(part)
	if err != nil {
		return nil, err
	}
	n, err := markup.Parse(text)
	return n, broken(part, err)
}

// broken makes an error of the document of one of the XML in it.
func broken(part string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, markup.ErrDepth):
		return doc.Fail(doc.KindNesting, "%s in it: %w", part, err)
	}
	return doc.Fail(doc.KindCorrupt, "%s in it: %w", part, err)
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

// on tells whether a switch such as <w:b w:val="0"/> is there and on.
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
