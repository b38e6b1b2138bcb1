package pdf

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// piece is a text of one look without a gap. Rotated text is turned upright first.
type piece struct {
	x, y, end float64
	size      float64
	font      *font
	object    int // counts the text objects of a page
	rtl       bool
	text      string
	link      string
}

type font struct {
	bold, italic bool
	mono         bool // all characters are equally wide, as those of code are
}

// reader reads a page.
type reader struct {
	*file
	ctx    context.Context
	page   requests.Page
	text   references.FPDF_TEXTPAGE
	links  []link
	fields []structs.FPDF_FS_RECTF
	notes  []piece // of fields and notes without an appearance
	pieces []piece
	rules  []rule

	open   bool // the last piece goes on
	space  bool // before the next character
	matrix structs.FPDF_FS_MATRIX
	high   rune // the first half of a character
}

type link struct {
	structs.FPDF_FS_RECTF
	target string
}

const maxLinks = 1000 // of a page

// errGaveUp is that of an instance without memory, which PDFium ends itself.
var errGaveUp = doc.Fail(doc.KindTooLarge, "the PDF engine gave up: it takes more than %d MiB to read", maxMemory>>20)

// read reads the pieces and rules of a page. What forms and notes show becomes part of it.
func (f *file) read(ctx context.Context, i int) (*reader, error) {
	r := &reader{file: f, ctx: ctx}
	p, err := f.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: f.doc, Index: i})
	if errors.Is(err, pdfiumerrors.ErrPage) { // one that is damaged has no text
		return r, nil
	}
	if err != nil {
		return r, errGaveUp
	}
	r.page.ByReference = &p.Page
	defer func() { _, _ = f.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: p.Page}) }()
	if n, err := f.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: r.page}); err == nil && n.Count > 0 {
		r.findLinks()
		if n.Count > len(r.links) {
			r.findFields(min(n.Count, maxFields))
			_, _ = f.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: r.page})
		}
	}
	if err := r.readText(); err != nil {
		return r, err
	}
	r.pieces = append(r.pieces, r.notes...)
	r.placeFields()
	return r, r.readRules()
}

func (r *reader) findLinks() {
	for at := 0; len(r.links) < maxLinks; {
		l, err := r.FPDFLink_Enumerate(&requests.FPDFLink_Enumerate{Page: r.page, StartPos: at})
		if err != nil || l.Link == nil || l.NextStartPos == nil || *l.NextStartPos <= at {
			return
		}
		at = *l.NextStartPos
		r.handles++
		rect, err := r.FPDFLink_GetAnnotRect(&requests.FPDFLink_GetAnnotRect{Link: *l.Link})
		if err != nil || rect.Rect == nil {
			continue
		}
		found := link{FPDF_FS_RECTF: *rect.Rect}
		if a, err := r.FPDFLink_GetAction(&requests.FPDFLink_GetAction{Link: *l.Link}); err == nil && a.Action != nil {
			u, err := r.FPDFAction_GetURIPath(&requests.FPDFAction_GetURIPath{Document: r.doc, Action: *a.Action})
			if err == nil && u.URIPath != nil {
				found.target = *u.URIPath
			}
		}
		r.links = append(r.links, found)
	}
}

// readText reads the pieces of a page in PDFium's order: that of the file, and within a line that of reading.
func (r *reader) readText() error {
	t, err := r.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: r.page})
	if err != nil {
		return errGaveUp
	}
	r.text = t.TextPage
	defer func() { _, _ = r.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: r.text}) }()
	n, err := r.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: r.text})
	if err != nil {
		return errGaveUp
	}
	for i := range n.Count {
		if i&0xff == 0 && r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		c, err := r.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: r.text, Index: i})
		if err != nil {
			return errGaveUp
		}
		r.char(i, rune(c.Unicode))
	}
	return nil
}

// char puts a character at the end of the last piece, or begins a new one.
func (r *reader) char(i int, c rune) {
	text := r.glyph(i, c)
	switch {
	case text != "":
	case c == '\r' || c == '\n':
		r.open, r.space = false, false
		return
	case c == '\t':
		r.space = true
		return
	case c == 0xfffe || c == 2 && r.hyphen(i): // at the end of a line
		c = '-'
	case c < ' ' || c > unicode.MaxRune:
		return
	case utf16.IsSurrogate(c) && r.high == 0:
		r.high = c
		return
	case utf16.IsSurrogate(c):
		c, r.high = utf16.DecodeRune(r.high, c), 0
	}
	if text == "" {
		text = string(c)
	}
	m, err := r.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: r.text, Index: i})
	if err != nil {
		return
	}
	b, err := r.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: r.text, Index: i})
	if err != nil {
		return
	}
	left, right := frameOf(m.Matrix).box(b.Rect)
	if c == ' ' && left == right { // PDFium's own
		r.space = true
		return
	}
	if n := len(r.pieces); c == ' ' && r.open && left >= r.pieces[n-1].x && right <= r.pieces[n-1].end {
		return // it was drawn over letters
	}
	target := r.linkAt(b.Rect)
	if r.open && m.Matrix == r.matrix {
		p := &r.pieces[len(r.pieces)-1]
		gap := left - p.end
		if p.rtl {
			gap = p.x - right
		}
		if target == p.link && gap < 0.9*p.size {
			if r.space {
				p.text += " "
			}
			p.text += text
			p.x, p.end, r.space = min(p.x, left), max(p.end, right), false
			return
		}
	}
	r.begin(i, m.Matrix, piece{x: left, end: right, text: text, link: target, rtl: isRTL(c)})
}

// glyph is the text of a character that PDFium knows by its code only; empty if there is none.
func (r *reader) glyph(i int, code rune) string {
	for _, codes := range r.glyphs {
		if codes[code] == "" {
			continue
		}
		unknown, err := r.FPDFText_HasUnicodeMapError(&requests.FPDFText_HasUnicodeMapError{TextPage: r.text, Index: i})
		if err != nil || !unknown.HasUnicodeMapError {
			return ""
		}
		info, err := r.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: r.text, Index: i})
		if err != nil {
			return ""
		}
		return r.glyphs[info.FontName][code]
	}
	return ""
}

// begin begins a piece with a character.
func (r *reader) begin(i int, m structs.FPDF_FS_MATRIX, p piece) {
	at, err := r.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: r.text, Index: i})
	if err != nil {
		return
	}
	size, err := r.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: r.text, Index: i})
	if err != nil {
		return
	}
	scale := math.Hypot(float64(m.C), float64(m.D))
	if p.size = math.Abs(size.FontSize) * scale; p.size == 0 {
		return
	}
	p.y, p.font = frameOf(m).y(at.X, at.Y), r.fontOf(i)
	if n := len(r.pieces); n > 0 {
		last := &r.pieces[n-1]
		if p.object = last.object; m != r.matrix {
			p.object++
		}
		if r.space && math.Abs(last.y-p.y) < p.size/2 && p.x-last.end < p.size && last.x-p.end < p.size {
			p.text = " " + p.text
		}
	}
	r.pieces = append(r.pieces, p)
	r.matrix, r.open, r.space = m, true, false
}

func (r *reader) hyphen(i int) bool {
	h, err := r.FPDFText_IsHyphen(&requests.FPDFText_IsHyphen{TextPage: r.text, Index: i})
	return err == nil && h.IsHyphen
}

// linkAt is the target of a link over a character.
func (r *reader) linkAt(b structs.FPDF_FS_RECTF) string {
	x, y := (b.Left+b.Right)/2, (b.Top+b.Bottom)/2
	i := slices.IndexFunc(r.links, func(l link) bool {
		return x >= l.Left && x <= l.Right && y >= min(l.Bottom, l.Top) && y <= max(l.Bottom, l.Top)
	})
	if i < 0 {
		return ""
	}
	return r.links[i].target
}

// Flags of a font in the format.
const (
	flagItalic = 1 << 6
	flagBold   = 1 << 18
)

func (r *reader) fontOf(i int) *font {
	info, err := r.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: r.text, Index: i})
	if err != nil {
		return &font{}
	}
	base := strings.ToLower(info.FontName)
	named := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(base, w) })
	}
	return &font{
		bold: info.Flags&flagBold != 0 ||
			named("bold", "black", "heavy", "cmbx", "-bd", "demi"),
		italic: info.Flags&flagItalic != 0 || named("italic", "oblique", "cmti"),
		mono:   named("courier", "mono", "consolas", "menlo", "cmtt"),
	}
}

func isRTL(c rune) bool {
	return unicode.In(c, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}

// frame is a direction in which text runs: its cosine and sine.
type frame struct{ cos, sin float64 }

func frameOf(m structs.FPDF_FS_MATRIX) frame {
	h := math.Hypot(float64(m.A), float64(m.B))
	if h == 0 || m.B == 0 && m.A > 0 {
		return frame{1, 0}
	}
	return frame{float64(m.A) / h, float64(m.B) / h}
}

func (f frame) y(x, y float64) float64 { return y*f.cos - x*f.sin }

// box is where a box begins and ends along the frame.
func (f frame) box(b structs.FPDF_FS_RECTF) (left, right float64) {
	x0, y0, x1, y1 := float64(b.Left), float64(b.Bottom), float64(b.Right), float64(b.Top)
	left, right = min(x0*f.cos, x1*f.cos), max(x0*f.cos, x1*f.cos)
	return left + min(y0*f.sin, y1*f.sin), right + max(y0*f.sin, y1*f.sin)
}
