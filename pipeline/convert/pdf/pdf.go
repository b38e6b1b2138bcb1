// Package pdf reads the text of PDF files by PDFium, and infers structure from its appearance: headings by size, lists
// by their marks, tables by rules and columns.
package pdf

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
)

const maxPages = 50_000

// Convert converts a PDF file. One without any text, such as a scan, is unsupported: the text must be read by others.
func Convert(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	text, err := read(ctx, d.Data)
	if err != nil {
		return doc.Markdown{}, err
	}
	all := slices.Concat(text...)
	if len(all) == 0 {
		return doc.Markdown{}, doc.Fail(doc.KindUnsupported, "its pages are pictures without text")
	}
	w := &writer{body: bodySize(all)}
	w.sizes = headingSizes(all, w.body)
	for i, l := range text {
		if d.PageMarkers {
			w.endParagraph()
			w.w.Block(fmt.Sprintf("<!-- Page %d -->", i+1))
		}
		w.page(l)
	}
	w.endParagraph()
	return doc.Markdown{Text: w.w.String()}, nil
}

// read reads the lines of each page. A long document takes several instances one after the other.
func read(ctx context.Context, data []byte) (text [][]line, err error) {
	f, err := open(ctx, data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // an instance that is broken cannot end well
	if f.pages == 0 {
		return nil, doc.Fail(doc.KindCorrupt, "it has no pages")
	}
	for i := range f.pages {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if f.handles > maxHandles {
			_ = f.Close()
			next, err := open(ctx, data)
			if err != nil {
				return nil, err
			}
			f = next
		}
		r, err := f.read(ctx, i)
		if err != nil {
			return nil, err
		}
		text = append(text, r.lines())
	}
	return text, nil
}

// writer makes blocks of lines.
type writer struct {
	w      markdown.Writer
	body   float64
	sizes  []float64 // of headings
	lines  []line    // of the page
	para   []line    // the paragraph, item or heading so far
	level  int       // of the heading; 0: it is none
	marker string
	link   string // that the text is in
	prose  bool   // a paragraph or an item is being written
}

func (w *writer) page(all []line) {
	findItems(all)
	w.lines = all
	for i := 0; i < len(all); {
		l, end := all[i], i+1
		code, table := codeEnd(all, i), tableEnd(all, i)
		if code > i || l.grid != nil || table > i {
			w.endParagraph()
			w.w.EndLists()
		}
		switch {
		case code > i:
			end = code
			w.code(all[i:end])
		case l.grid != nil:
			w.grid(l.grid)
		case table > i:
			end = table
			w.table(all[i:end])
		default:
			w.line(l)
		}
		i = end
	}
}

// line puts a line at the end of the paragraph, or begins a new one.
func (w *writer) line(l line) {
	level := w.levelOf(&l)
	if len(w.para) > 0 {
		last := w.para[len(w.para)-1]
		down := last.y - l.y
		apart := 1.75 * l.size
		if level > 0 {
			apart = 1.45 * l.size
		}
		together := level == w.level && l.item == "" && near(last.size, l.size) && down > -0.5*l.size &&
			down < apart && len(l.cells) == 1 && (level > 0 || !isOver(&last, &l, rightEdge(w.lines, &last)))
		if level == 0 && w.level == 0 && down < 0 && !endsSentence(last.text()) && startsLower(l.text()) &&
			l.item == "" {
			together = true // it goes on in the next column, or on the next page
		}
		if together && w.marker == "" && level == 0 && down > 0 && l.cells[0].x > w.para[0].cells[0].x+1.2*l.size &&
			len(w.para) > 1 {
			together = false // the first line of a paragraph is set in
		}
		if !together {
			w.endParagraph()
		}
	}
	if len(w.para) == 0 {
		w.level, w.marker = level, ""
		if level == 0 {
			w.marker = l.item
		}
	}
	w.para = append(w.para, l)
}

// near reports whether two lines may belong to one paragraph: words in another font make a line a little larger.
func near(a, b float64) bool { return max(a, b) < 1.25*min(a, b) }

func endsSentence(t string) bool {
	return t == "" || strings.ContainsAny(t[len(t)-1:], ".!?:")
}

func startsLower(t string) bool {
	r, _ := utf8.DecodeRuneInString(t)
	return unicode.IsLower(r)
}

// levelOf is the level of a heading; 0 for other lines.
func (w *writer) levelOf(l *line) int {
	t := l.text()
	if !isTitle(t) {
		return 0
	}
	if i := slices.Index(w.sizes, rounded(l.size)); i >= 0 {
		return i + 1
	}
	if l.bold && len(t) < 100 && l.size >= w.body*0.95 && len(l.cells) == 1 &&
		!strings.ContainsAny(t[len(t)-1:], ".,;:") {
		return min(len(w.sizes)+1, 6)
	}
	return 0
}

// endParagraph writes what was gathered.
func (w *writer) endParagraph() {
	if len(w.para) == 0 {
		return
	}
	lines := w.para
	w.para = nil
	switch {
	case w.level > 0:
		w.w.EndLists()
		w.w.Heading(w.level)
	case w.marker != "":
		w.item(lines[0].cells[0].x)
	default:
		w.w.EndLists()
		w.w.Paragraph()
	}
	w.prose = w.level == 0
	w.text(lines, w.marker)
	w.w.End()
	w.prose = false
}

// text writes lines one after the other, without the mark of a list at their beginning.
func (w *writer) text(lines []line, skip string) {
	for i, l := range lines {
		if i > 0 && !w.hyphenated(&lines[i-1], &l) {
			w.w.Text(" ")
		}
		cut := i+1 < len(lines) && w.hyphenated(&l, &lines[i+1])
		for j := range l.cells {
			if j > 0 {
				w.w.Text(" ")
			}
			w.span(&l.cells[j], &skip, cut && j == len(l.cells)-1)
		}
	}
	w.linkTo("")
}

// hyphenated reports whether a word goes on in the next line.
func (w *writer) hyphenated(a, b *line) bool {
	t := a.text()
	last, _ := utf8.DecodeLastRuneInString(strings.TrimSuffix(t, "-"))
	return strings.HasSuffix(t, "-") && unicode.IsLetter(last) && startsLower(b.text())
}

// span writes a part of a line, without the mark of a list at its beginning, or the hyphen at its end.
func (w *writer) span(s *span, skip *string, cut bool) {
	for i, p := range s.parts {
		t := p.text
		if *skip != "" {
			t = strings.TrimLeft(t, " ")
			if rest, ok := strings.CutPrefix(t, *skip); ok {
				t, *skip = rest, ""
			} else if rest, ok := strings.CutPrefix(*skip, t); ok {
				t, *skip = "", rest
			}
		}
		if cut && i == len(s.parts)-1 {
			t = strings.TrimSuffix(strings.TrimRight(t, " "), "-")
		}
		w.linkTo(p.link)
		emphasis := w.prose && p.link == "" // in headings and tables it is their look
		w.w.Styled(emphasis && p.font.bold, emphasis && p.font.italic, false, func() { w.w.Text(t) })
	}
}

// linkTo makes the text that follows a link to a target, or none if that is empty. A link goes on in the next line.
func (w *writer) linkTo(target string) {
	if target == w.link {
		return
	}
	if w.link != "" {
		w.w.EndLink()
	}
	if target != "" {
		w.w.Link(target, "")
	}
	w.link = target
}

// codeEnd returns where a listing that begins at i ends; i if none does.
func codeEnd(all []line, i int) int {
	j := i
	for j < len(all) && all[j].mono && len(all[j].cells) == 1 && (j == i || all[j-1].y > all[j].y) {
		j++
	}
	return j
}

// code writes a listing; how far a line is set in shows in spaces.
func (w *writer) code(all []line) {
	left := all[0].cells[0].x
	for i := range all {
		left = min(left, all[i].cells[0].x)
	}
	var b strings.Builder
	for i := range all {
		s := &all[i].cells[0]
		wide := max((s.end-s.x)/float64(max(all[i].chars, 1)), 1)
		b.WriteString(strings.Repeat(" ", min(int((s.x-left)/wide+0.5), 200)) + strings.TrimRight(s.raw(), " ") + "\n")
	}
	w.w.Fence("", b.String())
}

// item begins an item of a list, deeper than the one before if it is set in further.
func (w *writer) item(x float64) {
	ordered := strings.ContainsAny(w.marker, "0123456789")
	w.w.ItemAt(x, 2, ordered, 1, "")
	if ordered {
		n, _ := strconv.Atoi(strings.Trim(w.marker, ".()"))
		w.w.Number(n)
	}
}

func (w *writer) table(rows []line) {
	cols := columns(rows)
	w.w.Table(true)
	none := ""
	for _, r := range rows {
		w.w.Row()
		at := 0
		for i := range r.cells {
			c := columnOf(cols, &r.cells[i])
			if c > at {
				w.w.Cell(c-at, 1)
				at = c
			}
			w.w.Cell(1, 1)
			w.span(&r.cells[i], &none, false)
			w.linkTo("")
			w.w.EndCell()
			at++
		}
	}
	w.w.EndTable()
}
