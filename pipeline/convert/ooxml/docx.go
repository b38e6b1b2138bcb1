package ooxml

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// word is a document of Word that is being converted.
type word struct {
	*file
	part    string // whose relations hold
	styles  map[string]wordStyle
	numbers numbering
	notes   []note // referred to so far
	bodies  map[note]*markup.Node
	field   []*field       // that have begun, the outermost first
	after   []*markup.Node // text boxes, charts and diagrams, for after the paragraph
	depth   int            // of text boxes
	code    []string       // lines of a listing
	quoting bool
	initial bool // a drop cap, or another part of a paragraph, was written, and the rest follows
	targets *targets
}

// targets are the headings that links within the document lead to, by their bookmarks.
type targets struct {
	read  bool
	slugs map[string]string
}

// note is a footnote, an endnote or a comment.
type note struct{ kind, id string }

// field is a complex field: its instruction comes first, then what it shows.
type field struct {
	instruction strings.Builder
	shows, link bool
	state       string // of a form, which is shown where the field itself shows nothing
}

// Docx converts a document of Word.
func Docx(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	return convert(ctx, d, "word/document.xml", func(f *file) (err error) {
		w := &word{file: f, part: f.main, targets: new(targets)}
		if w.styles, err = f.wordStyles(f.related(f.main, "styles")); err != nil {
			return err
		}
		if w.numbers, err = f.numbering(f.related(f.main, "numbering")); err != nil {
			return err
		}
		if err := w.readNotes(); err != nil {
			return err
		}
		if err := w.all(f.main, around); err != nil {
			return err
		}
		w.writeNotes()
		for _, kind := range []string{"header", "footnotes", "endnotes", "comments", "footer"} {
			for _, part := range f.allRelated(f.main, kind) {
				if w.w.Len() > 0 && w.part == f.main { // only a document without a text of its own is these
					return nil
				}
				w.part = part
				if err := w.all(part, func(name string) bool { return name != "p" && name != "tbl" }); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// all writes the blocks of a part.
func (w *word) all(part string, enter func(string) bool) error {
	err := w.elements(part, enter, w.block)
	w.endInitial()
	w.endListing()
	w.w.EndLists()
	return err
}

// anchor is the fragment of the heading that has a bookmark; empty if there is none: Markdown has no other anchors. The
// headings are read when the first link asks for one.
func (w *word) anchor(bookmark string) string {
	t := w.targets
	if !t.read {
		t.read, t.slugs = true, map[string]string{}
		numbers, err := w.numbering(w.related(w.main, "numbering"))
		if err != nil {
			return ""
		}
		of := &word{file: w.file, styles: w.styles, numbers: numbers}
		used := map[string]int{}
		_ = w.elements(w.main, around, func(n *markup.Node) { of.target(n, t.slugs, used) }) // it was read before
	}
	if slug := t.slugs[bookmark]; slug != "" {
		return "#" + slug
	}
	return ""
}

// target notes the bookmarks of a heading.
func (w *word) target(n *markup.Node, slugs map[string]string, used map[string]int) {
	if n.Name != "p" {
		return
	}
	p := w.properties(n.Child("pPr"))
	label := ""
	if p.num != "" && !p.code {
		label = w.numbers.label(p.num, p.level)
	}
	if p.heading == 0 || p.code {
		return
	}
	slug := slugOf(label + " " + plainText(n))
	before := used[slug]
	used[slug]++
	if before > 0 {
		slug += "-" + strconv.Itoa(before)
	}
	for c := range n.All {
		if c.Name == "bookmarkStart" {
			slugs[c.Attr("name")] = slug
		}
	}
}

// slugOf is the fragment that renderers of Markdown give to a heading.
func slugOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.Join(strings.Fields(heading), " "))
}

// endInitial ends a paragraph whose rest has not followed.
func (w *word) endInitial() {
	if w.initial {
		w.initial = false
		w.w.End()
	}
}

// around reports whether an element of the main part has blocks in it.
func around(name string) bool {
	switch name {
	case "document", "body", "sdt", "sdtContent", "customXml", "AlternateContent", "Choice":
		return true
	}
	return false
}

// block writes a paragraph, a table, or what is around such.
func (w *word) block(n *markup.Node) {
	switch n.Name {
	case "p":
		w.paragraph(n)
	case "tbl":
		w.endInitial()
		w.endListing()
		w.w.EndLists()
		w.table(n)
	case "sdt":
		w.blocks(n.Child("sdtContent"))
	case "ins", "moveTo", "customXml", "smartTag":
		w.blocks(n)
	case "AlternateContent":
		w.blocks(choice(n))
	case "oMathPara", "oMath":
		w.w.Math(tex(n), true)
	case "altChunk", "subDoc":
		w.imported(n)
	}
}

// imported writes a document that Word merges into this one when it opens it.
func (w *word) imported(n *markup.Node) {
	w.endListing()
	w.w.EndLists()
	if rels, _ := w.relations(w.part); !w.embedded(w.part, n.Attr("r:id")) {
		w.w.Marked(markdown.Em, "not converted: "+cmp.Or(rels[n.Attr("r:id")].target, "an imported document"))
		w.w.End()
	}
}

func (w *word) blocks(n *markup.Node) {
	for c := range n.Children {
		w.block(c)
	}
}

// choice is the part of alternate content that we understand best.
func choice(n *markup.Node) *markup.Node {
	if c := n.Child("Choice"); c != nil && c.First != nil {
		return c
	}
	return n.Child("Fallback")
}

func (w *word) paragraph(n *markup.Node) {
	p := w.properties(n.Child("pPr"))
	if w.inCode() != nil && n.Find("t") != nil && n.Find("fldChar", "instrText") == nil {
		w.field = nil // it has no end: a code is not in such paragraphs
	}
	if w.quoting && !p.quote && !w.initial {
		w.w.EndLists()
		w.w.EndQuote()
		w.quoting = false
	}
	if p.code {
		w.w.EndLists()
		w.code = append(w.code, plainText(n))
		return
	}
	w.endListing()
	merged := n.Child("pPr", "rPr", "del") != nil // with the next one: its end was deleted
	if merged && !hasContent(n) {
		return
	}
	if w.initial && hasContent(n) {
		w.open(n, merged)
		return
	}
	label := ""
	switch {
	case p.heading > 0:
		w.w.EndLists()
		if p.num != "" {
			label = w.numbers.label(p.num, p.level)
		}
		w.w.Heading(p.heading)
	case p.num != "" && hasContent(n):
		w.item(p)
	default:
		w.w.EndLists()
		if p.quote && !w.quoting {
			w.w.Quote()
			w.quoting = true
		}
		w.w.Paragraph()
	}
	if label != "" {
		w.w.Text(label + " ")
	}
	kind := n.Child("pPr", "framePr").Attr("dropCap")
	w.open(n, merged || kind == "drop" || kind == "margin")
}

// open writes what a paragraph holds, and ends it unless the next one belongs to it.
func (w *word) open(n *markup.Node, stays bool) {
	if w.initial = stays; stays {
		w.inlines(n)
	} else {
		w.words(n)
	}
}

// words writes what a paragraph holds, and ends it.
func (w *word) words(n *markup.Node) {
	w.inlines(n)
	for len(w.field) > 0 && w.field[len(w.field)-1].link { // a field ends with its paragraph, for us
		w.endField()
	}
	w.w.End()
	w.floats()
}

// floats writes what was anchored in the paragraph.
func (w *word) floats() {
	after := w.after
	w.after = nil
	if w.depth == maxBoxes {
		return
	}
	w.depth++
	for _, n := range after {
		switch n.Name {
		case "txbxContent":
			w.blocks(n)
			w.endListing()
			w.w.EndLists()
		case "txBody":
			w.w.Text(drawnText(n))
			w.w.End()
		case "chart":
			w.chart(w.part, n.Attr("r:id"))
		case "relIds":
			w.diagram(w.part, n.Attr("r:dm"))
		case "OLEObject":
			w.embedded(w.part, n.Attr("r:id"))
		}
	}
	w.depth--
}

const maxBoxes = 8 // text boxes in text boxes

// hasContent tells a paragraph from an empty line.
func hasContent(n *markup.Node) bool {
	return n.Find("t", "drawing", "pict", "oMath", "object", "sym") != nil
}

// plainText is that of a line of code, with its white space.
func plainText(n *markup.Node) string {
	var b strings.Builder
	for c := range n.All {
		switch c.Name {
		case "t":
			b.WriteString(c.Content())
		case "tab":
			if c.First == nil && c.Attr("val") == "" {
				b.WriteByte('\t')
			}
		case "br", "cr":
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (w *word) endListing() {
	if len(w.code) > 0 {
		w.w.Fence("", strings.Join(w.code, "\n"))
		w.code = nil
	}
}

// item begins an item of a list, and the lists around it.
func (w *word) item(p properties) {
	ordered, number := w.numbers.next(p.num, p.level)
	label := w.numbers.lettered(p.num, p.level)
	w.w.ItemAt(float64(p.level+p.deeper), 0.5, ordered && label == "", 1, p.num)
	switch {
	case label != "":
		w.w.Text(label + " ")
	case ordered:
		w.w.Number(number)
	}
}

// table writes a table. One of a single cell is a frame around its text.
func (w *word) table(n *markup.Node) {
	rows, cells := 0, 0
	for r := range n.Children {
		if r.Name == "tr" {
			rows++
			for c := range r.Children {
				if c.Name == "tc" {
					cells++
				}
			}
		}
	}
	w.w.Table(rows > 1 || cells > 1)
	w.rows(n)
	w.w.EndTable()
}

func (w *word) rows(n *markup.Node) {
	for r := range n.Children {
		switch r.Name {
		case "tr":
			pr := r.Child("trPr")
			if pr.Child("del") != nil {
				continue
			}
			w.w.Row()
			if skip := whole(pr.Child("gridBefore").Attr("val"), 0); skip > 0 {
				w.w.Cell(min(skip, 100), 1)
			}
			w.cells(r)
		case "sdt":
			w.rows(r.Child("sdtContent"))
		case "ins", "customXml":
			w.rows(r)
		}
	}
}

func (w *word) cells(r *markup.Node) {
	for c := range r.Children {
		switch c.Name {
		case "tc":
			pr := c.Child("tcPr")
			w.w.Cell(min(whole(pr.Child("gridSpan").Attr("val"), 1), 1000), 1)
			if m := pr.Child("vMerge"); m != nil && m.Attr("val") != "restart" {
				continue // the text is in the cell above
			}
			w.blocks(c)
			w.endListing()
			w.w.EndCell()
		case "sdt":
			w.cells(c.Child("sdtContent"))
		}
	}
}

// readNotes reads the footnotes, endnotes and comments of the document.
func (w *word) readNotes() error {
	w.bodies = map[note]*markup.Node{}
	for _, kind := range []string{"footnote", "endnote", "comment"} {
		root, err := w.Tree(w.related(w.main, kind+"s"))
		if err != nil {
			return err
		}
		for c := range root.Children {
			if n := (note{kind, c.Attr("id")}); c.Name == kind && w.bodies[n] == nil {
				w.bodies[n] = c
			}
		}
	}
	return nil
}

// writeNotes writes the notes that the text refers to.
func (w *word) writeNotes() {
	for i := 0; i < len(w.notes); i++ { // a note may refer to others
		w.note(w.notes[i], w.bodies[w.notes[i]])
	}
}

func (w *word) note(n note, c *markup.Node) {
	body := &word{file: w.file, part: w.related(w.main, n.kind+"s"), styles: w.styles, numbers: w.numbers,
		notes: w.notes, bodies: w.bodies, targets: w.targets}
	outer := w.file.w
	w.file.w = new(markdown.Writer)
	if author := c.Attr("author"); n.kind == "comment" && author != "" {
		w.file.w.Text(author + ": ")
		for p := range c.Children { // its first paragraph goes on the same line
			body.inlines(p)
			w.file.w.Break()
		}
	} else {
		body.blocks(c)
	}
	text := strings.TrimSpace(w.file.w.String())
	w.file.w = outer
	w.notes = body.notes
	outer.Block("[^" + n.label() + "]: " + strings.ReplaceAll(text, "\n", "\n    "))
}

// label is what the reference shows.
func (n note) label() string {
	return map[string]string{"endnote": "e", "comment": "c"}[n.kind] + n.id
}
