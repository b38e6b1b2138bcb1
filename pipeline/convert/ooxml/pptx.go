package ooxml

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// presentation is one that is being converted.
type presentation struct {
	*file
	part    string                  // of the slide
	layout  *markup.Node            // of the slide; nil if it has none
	layouts map[string]*markup.Node // by part
	authors map[string]string       // of comments
	behind  bool                    // what is behind the slides is read: placeholders there only say what to fill in
}

// Pptx converts a presentation of PowerPoint.
func Pptx(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	return convert(ctx, d, "ppt/presentation.xml", func(f *file) error {
		root, rels, err := f.mainTree()
		if err != nil {
			return err
		}
		s := &presentation{file: f, layouts: map[string]*markup.Node{}}
		n := 0
		for id := range root.Child("sldIdLst").Children {
			if err := ctx.Err(); err != nil {
				return err
			}
			n++
			if d.PageMarkers {
				f.w.Block(fmt.Sprintf("<!-- Slide number: %d -->", n))
			}
			if err := s.slide(rels[id.Attr("r:id")].target); err != nil {
				return err
			}
		}
		if f.w.Len() > 0 {
			return nil
		}
		s.behind = true
		for _, layout := range slices.Sorted(maps.Keys(s.layouts)) { // all that is to be seen is the texts of layouts
			for _, s.part = range []string{s.related(layout, "slideMaster"), layout} {
				root, err := s.Tree(s.part)
				if err != nil {
					return err
				}
				s.shapes(root.Child("cSld", "spTree"), 0)
			}
		}
		return nil
	})
}

func (s *presentation) slide(part string) error {
	root, err := s.Tree(part)
	if err != nil || root == nil {
		return err
	}
	if show, stated := root.Lookup("show"); stated && (show == "0" || show == "false") {
		if !s.d.Hidden {
			return nil
		}
		s.w.Marked(markdown.Em, "hidden slide")
		s.w.End()
	}
	s.part = part
	if _, err := s.relations(part); err != nil {
		return err
	}
	layout := s.related(part, "slideLayout")
	if _, read := s.layouts[layout]; !read {
		if s.layouts[layout], err = s.Tree(layout); err != nil {
			return err
		}
	}
	s.layout = s.layouts[layout]
	s.shapes(root.Child("cSld", "spTree"), 0)
	s.notes(part)
	s.comments(part)
	return nil
}

// placed is a shape and where it is.
type placed struct {
	n         *markup.Node
	title     bool
	top, left int
}

// shapes writes shapes in the order in which one reads them: the title, then from the top to the bottom, and from
// the left to the right what is at one height.
func (s *presentation) shapes(tree *markup.Node, depth int) {
	var all []placed
	var collect func(n *markup.Node)
	collect = func(n *markup.Node) {
		for c := range n.Children {
			switch c.Name {
			case "sp", "pic", "graphicFrame", "grpSp", "cxnSp":
				if !s.behind || placeholder(c) == nil {
					all = append(all, s.place(c))
				}
			case "AlternateContent":
				collect(choice(c))
			}
		}
	}
	collect(tree)
	slices.SortStableFunc(all, func(a, b placed) int {
		if a.title != b.title {
			return map[bool]int{true: -1, false: 1}[a.title]
		}
		return cmp.Compare(a.top, b.top)
	})
	const oneHeight = 91440 // a tenth of an inch
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && !all[i].title && all[j].top-all[i].top < oneHeight {
			j++
		}
		slices.SortStableFunc(all[i:j], func(a, b placed) int { return cmp.Compare(a.left, b.left) })
		for _, p := range all[i:j] {
			s.shape(p.n, depth)
		}
		i = j
	}
}

func (s *presentation) place(n *markup.Node) placed {
	ph := placeholder(n)
	kind := ph.Attr("type")
	p := placed{n: n, title: kind == "title" || kind == "ctrTitle"}
	off := offset(n)
	if off == nil && ph != nil {
		off = offset(s.inLayout(ph))
	}
	p.top, p.left = whole(off.Attr("y"), 0), whole(off.Attr("x"), 0)
	return p
}

func offset(n *markup.Node) *markup.Node {
	return cmp.Or(n.Child("spPr", "xfrm", "off"), n.Child("xfrm", "off"), n.Child("grpSpPr", "xfrm", "off"))
}

func placeholder(n *markup.Node) *markup.Node {
	for c := range n.Children {
		if strings.HasPrefix(c.Name, "nv") {
			return c.Child("nvPr", "ph")
		}
	}
	return nil
}

// inLayout is the placeholder of the layout that one of the slide takes its place and look from.
func (s *presentation) inLayout(ph *markup.Node) *markup.Node {
	for c := range s.layout.Child("cSld", "spTree").Children {
		other := placeholder(c)
		if other == nil {
			continue
		}
		if idx := ph.Attr("idx"); idx != "" && idx == other.Attr("idx") ||
			idx == "" && ph.Attr("type") == other.Attr("type") {
			return c
		}
	}
	return nil
}

func (s *presentation) shape(n *markup.Node, depth int) {
	switch n.Name {
	case "grpSp":
		if depth < 32 {
			s.shapes(n, depth+1)
		}
	case "pic":
		pr := n.Child("nvPicPr", "cNvPr")
		s.w.End()
		s.picture(s.part, n.Child("blipFill", "blip").Attr("r:embed"), cmp.Or(pr.Attr("descr"), pr.Attr("title")))
		s.w.End()
	case "graphicFrame":
		s.frame(n)
	case "sp", "cxnSp":
		s.textShape(n)
	}
}

func (s *presentation) frame(n *markup.Node) {
	data, alt := n.Child("graphic", "graphicData"), n.Child("nvGraphicFramePr", "cNvPr").Attr("descr")
	if data.Find("tbl", "chart", "relIds", "oleObj", "AlternateContent") == nil && alt != "" {
		s.w.Image(alt, "", "")
		s.w.End()
	}
	for c := range data.Children {
		switch c.Name {
		case "tbl":
			s.table(c)
		case "chart":
			s.chart(s.part, c.Attr("r:id"))
		case "relIds":
			s.diagram(s.part, c.Attr("r:dm"))
		case "oleObj":
			if !s.embedded(s.part, c.Attr("r:id")) {
				s.w.Text(alt)
				s.w.End()
			}
		case "AlternateContent":
			if object := c.Find("oleObj"); object != nil && s.embedded(s.part, object.Attr("r:id")) {
				break
			}
			if blip := choice(c).Find("blip"); blip != nil {
				s.picture(s.part, blip.Attr("r:embed"), alt)
				s.w.End()
			}
		}
	}
}

func (s *presentation) table(n *markup.Node) {
	s.w.Table(true)
	for r := range n.Children {
		if r.Name != "tr" {
			continue
		}
		s.w.Row()
		for c := range r.Children {
			if c.Name != "tc" {
				continue
			}
			s.w.Cell(1, 1) // the cells that a merged one covers are there, and empty
			if !flag(c, "hMerge") && !flag(c, "vMerge") {
				s.body(c.Child("txBody"), false)
			}
			s.w.EndCell()
		}
	}
	s.w.EndTable()
}

func flag(n *markup.Node, attr string) bool { v := n.Attr(attr); return v == "1" || v == "true" }

func (s *presentation) textShape(n *markup.Node) {
	body := n.Child("txBody")
	ph := placeholder(n)
	kind := ph.Attr("type")
	switch {
	case kind == "sldNum":
		return
	case kind == "title" || kind == "ctrTitle":
		if text := drawnText(body); text != "" {
			s.w.Heading(map[bool]int{true: 1, false: 2}[kind == "ctrTitle"])
			for p := range body.Children {
				if p.Name == "p" {
					s.runs(p)
					s.w.Text(" ")
				}
			}
			s.w.End()
		}
		return
	}
	if pr := n.Child("nvSpPr", "cNvPr"); pr.Attr("descr") != "" && drawnText(body) == "" {
		s.w.End()
		s.w.Image(pr.Attr("descr"), "", "")
		s.w.End()
		return
	}
	s.body(body, ph != nil && (kind == "" || kind == "body" || kind == "obj") && !noBullets(s.inLayout(ph)))
}

// noBullets reports whether a placeholder of the layout turns the bullets of its text off.
func noBullets(layout *markup.Node) bool {
	return layout.Child("txBody", "lstStyle", "lvl1pPr", "buNone") != nil
}

// body writes the paragraphs of a shape; bullets tells that they are items of a list unless they say otherwise.
func (s *presentation) body(n *markup.Node, bullets bool) {
	for p := range n.Children {
		if p.Name != "p" || strings.TrimSpace(textOf(p)) == "" && p.Find("oMath") == nil {
			continue
		}
		pr := p.Child("pPr")
		lvl := min(max(whole(pr.Attr("lvl"), 0), 0), 8)
		numbered := pr.Child("buAutoNum")
		item := numbered != nil || pr.Child("buChar") != nil || pr.Child("buBlip") != nil || lvl > 0 ||
			bullets && pr.Child("buNone") == nil
		if !item || pr.Child("buNone") != nil && lvl == 0 {
			s.w.EndLists()
			s.w.Paragraph()
			s.runs(p)
			s.w.End()
			continue
		}
		s.w.ItemAt(float64(lvl), 0.5, numbered != nil, whole(numbered.Attr("startAt"), 1), "")
		s.runs(p)
	}
	s.w.EndLists()
}

// runs writes the text of a paragraph.
func (s *presentation) runs(p *markup.Node) {
	rels, _ := s.relations(s.part)
	for r := range p.Children {
		switch r.Name {
		case "r", "fld":
			pr := r.Child("rPr")
			link := pr.Child("hlinkClick")
			target := rels[link.Attr("r:id")]
			if target.external {
				s.w.Link(target.target, link.Attr("tooltip"))
			}
			strike := pr.Attr("strike")
			s.w.Styled(flag(pr, "b"), flag(pr, "i"), strike != "" && strike != "noStrike", func() {
				if text := r.Child("t").Content(); strings.HasPrefix(pr.Attr("baseline"), "3") {
					s.w.Superscript(text)
				} else {
					s.w.Text(text)
				}
			})
			if target.external {
				s.w.EndLink()
			}
		case "br":
			s.w.Break()
		case "AlternateContent", "m":
			s.w.Math(tex(r.Find("oMath")), false)
		}
	}
}

// notes writes what the speaker says to a slide.
func (s *presentation) notes(part string) {
	notes := s.related(part, "notesSlide")
	root, _ := s.Tree(notes)
	outer := s.part
	s.part = notes
	_, _ = s.relations(notes)
	title := "Notes:"
	for c := range root.Child("cSld", "spTree").Children {
		ph := placeholder(c)
		if (ph == nil || ph.Attr("type") == "body") && drawnText(c.Child("txBody")) != "" {
			if title != "" {
				s.w.Title(3, title)
				title = ""
			}
			s.body(c.Child("txBody"), false)
		}
	}
	s.part = outer
}

// comments writes those of a slide, old and new ones.
func (s *presentation) comments(part string) {
	for _, target := range s.allRelated(part, "comments") {
		root, _ := s.Tree(target)
		for c := range root.All {
			if c.Name != "cm" && c.Name != "reply" {
				continue
			}
			text := cmp.Or(c.Child("text").Content(), drawnText(c.Child("txBody")))
			s.w.Quote()
			s.w.Text(strings.TrimPrefix(s.author(c.Attr("authorId"))+": "+text, ": "))
			s.w.EndQuote()
		}
	}
}

func (s *presentation) author(id string) string {
	if s.authors == nil {
		s.authors = map[string]string{}
		for _, kind := range []string{"commentAuthors", "authors"} {
			root, _ := s.Tree(s.related(s.main, kind))
			for c := range root.Children {
				s.authors[c.Attr("id")] = c.Attr("name")
			}
		}
	}
	return s.authors[id]
}
