package plain

import (
	"context"
	"html"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// rtf is a document in Rich Text Format that is being read.
type rtf struct {
	w        markdown.Writer
	state    rtfState
	stack    []rtfState
	page     int          // code page of the document
	fonts    map[int]int  // code page by font
	headings map[int]int  // level by style
	quotes   map[int]bool // styles of quotes
	pending  []byte       // bytes of a code page that wait for the ones after them
	surplus  int          // characters that stand in for a Unicode one, to be passed over
	inTable  bool
	inCell   bool
	intbl    bool   // the paragraph is in a table
	label    string // of the item that the paragraph is: "1." or a bullet; empty: it is none
	level    int    // of the item
	lists    rtfLists
	list     int             // of the item, as the lists are numbered; 0: none is stated
	dropped  int             // see dropCap
	notes    []string        // footnotes and comments
	author   strings.Builder // of the next comment
	property strings.Builder // of a picture, and what it says in alt text
	alt      strings.Builder
	hidden   bool // hidden text is asked for
	margins  bool // headers and footers of pages are shown
	form     rtfForm
	quote    bool // the paragraph is a quote
	quoted   bool // a quote is open
	begun    bool // the paragraph has text
	high     int  // first half of a character beyond 16 bits
	heading  int
	link     strings.Builder
	name     strings.Builder // of a style
	isHTML   bool            // it is made of a page, which is within it ([MS-OXRTFEX])
	html     strings.Builder
}

// rtfForm is the field of a form: a box to tick, or a list to choose from.
type rtfForm struct {
	result, otherwise int
	entries           []string
}

type rtfState struct {
	dest         string // what the group is; "" is text
	bold, italic bool
	strike       bool
	font, style  int
	uc           int // how many characters stand in for a Unicode one
	linked       bool
	hidden       bool
	deleted      bool // and the change is tracked
	double       bool // of a page, for programs that do not read it
}

// rtfCharsets are those of fonts, as code pages.
var rtfCharsets = map[int]int{0: 1252, 77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254,
	163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250}

// RTF converts a document in Rich Text Format.
func RTF(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if !strings.HasPrefix(string(d.Data[:min(len(d.Data), 5)]), `{\rtf`) {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not RTF")
	}
	md, err := readRTF(ctx, string(d.Data), d.Hidden, false)
	if err == nil && strings.TrimSpace(md.Text) == "" {
		return readRTF(ctx, string(d.Data), d.Hidden, true)
	}
	return md, err
}

// readRTF reads a document, and the headers and footers of its pages if they are all that it shows.
func readRTF(ctx context.Context, src string, hidden, margins bool) (doc.Markdown, error) {
	r := &rtf{page: 1252, fonts: map[int]int{}, headings: map[int]int{}, quotes: map[int]bool{}, state: rtfState{uc: 1},
		hidden: hidden, margins: margins}
	for i := 0; i < len(src); {
		switch src[i] {
		case '{':
			r.flush()
			if len(r.stack) > 10_000 {
				return doc.Markdown{}, doc.Fail(doc.KindNesting, "its groups are nested too deeply")
			}
			r.stack = append(r.stack, r.state)
			i++
		case '}':
			r.flush()
			r.endGroup()
			i++
			if len(r.stack) == 0 {
				return r.result(), nil
			}
		case '\\':
			i = r.control(src, i+1)
		case '\r', '\n':
			i++
		default:
			r.pending = append(r.pending, src[i])
			i++
			r.skipSurplus()
		}
		if i&0xffff == 0 && ctx.Err() != nil {
			return doc.Markdown{}, ctx.Err()
		}
	}
	return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is cut off")
}

func (r *rtf) result() doc.Markdown {
	if r.isHTML {
		r.w.HTML(r.html.String(), markdown.Options{})
	}
	r.endTable()
	r.w.EndLists()
	r.endQuote()
	for i, n := range r.notes {
		r.w.Block("[^" + strconv.Itoa(i+1) + "]: " + strings.Join(strings.Fields(n), " "))
	}
	return doc.Markdown{Text: r.w.String()}
}

// skipSurplus drops the last byte if it stands in for a character that was there in Unicode.
func (r *rtf) skipSurplus() {
	if r.surplus > 0 {
		r.surplus--
		r.pending = r.pending[:len(r.pending)-1]
	}
}

// control reads a control word or symbol, and returns where it ends.
func (r *rtf) control(src string, i int) int {
	if i >= len(src) {
		return i
	}
	start := i
	for i < len(src) && (src[i]|0x20 >= 'a' && src[i]|0x20 <= 'z') {
		i++
	}
	if i == start {
		return r.symbol(src, i)
	}
	word := src[start:i]
	number := i
	if i < len(src) && src[i] == '-' {
		i++
	}
	for i < len(src) && src[i] >= '0' && src[i] <= '9' {
		i++
	}
	n, err := strconv.Atoi(src[number:i])
	if i < len(src) && src[i] == ' ' {
		i++
	}
	if word == "bin" && n > 0 {
		return min(i+n, len(src))
	}
	if word != "u" {
		r.flush()
	}
	r.word(word, n, err == nil)
	return i
}

func (r *rtf) symbol(src string, i int) int {
	switch c := src[i]; c {
	case '\'':
		if i+3 <= len(src) {
			if b, err := strconv.ParseUint(src[i+1:i+3], 16, 8); err == nil {
				r.pending = append(r.pending, byte(b))
				r.skipSurplus()
			}
		}
		return min(i+3, len(src))
	case '*':
		begins := i > 1 && src[i-2] == '{' // elsewhere it says nothing
		if begins && (r.state.dest == "" || r.state.dest == "footnote") {
			r.state.dest = "*"
		}
	case '~':
		r.pending = append(r.pending, ' ')
	case '_':
		r.pending = append(r.pending, '-')
	case '\\', '{', '}':
		r.pending = append(r.pending, c)
		r.skipSurplus()
	case '\n', '\r':
		r.flush()
		r.word("par", 0, false)
	}
	return i + 1
}

// flush writes the bytes that were gathered.
func (r *rtf) flush() {
	if len(r.pending) == 0 {
		return
	}
	page := r.page
	if p := r.fonts[r.state.font]; p != 0 {
		page = p
	}
	text := charset.Codepage(r.pending, page)
	r.pending = r.pending[:0]
	r.text(text)
}

func (r *rtf) text(t string) {
	if r.isHTML {
		switch {
		case r.state.double:
		case r.state.dest == "htmltag":
			r.html.WriteString(t)
		case r.state.dest == "":
			r.html.WriteString(html.EscapeString(t))
		}
		return
	}
	switch r.state.dest {
	case "":
		if (r.state.hidden || r.state.deleted) && !r.hidden {
			return
		}
		if !r.begun && strings.TrimSpace(t) != "" {
			r.begin()
		}
		r.w.Styled(r.state.bold, r.state.italic, r.state.strike || r.state.deleted, func() { r.w.Text(t) })
	case "fldinst":
		r.link.WriteString(t)
	case "footnote":
		r.notes[len(r.notes)-1] += t
	case "listtext", "pntext":
		r.label += t
	case "leveltext":
		if n := len(r.lists.levels); n > 0 {
			r.lists.levels[n-1].text += t
		}
	case "atnauthor":
		r.author.WriteString(t)
	case "ffl":
		r.form.entries[len(r.form.entries)-1] += t
	case "sn":
		r.property.WriteString(t)
	case "sv":
		if r.property.String() == "wzDescription" {
			r.alt.WriteString(t)
		}
	case "stylesheet":
		r.name.WriteString(t)
		r.styled(strings.ToLower(r.name.String()))
	}
}

// styled notes what a style is by its name, which ends with a semicolon.
func (r *rtf) styled(name string) {
	switch level, ok := strings.CutPrefix(name, "heading "); {
	case ok && strings.Contains(level, ";"):
		r.headings[r.state.style], _ = strconv.Atoi(strings.TrimSuffix(level, ";"))
	case name == "title;":
		r.headings[r.state.style] = 1
	case strings.HasSuffix(name, "quote;"):
		r.quotes[r.state.style] = true
	}
}

// begin starts the paragraph as what it is.
func (r *rtf) begin() {
	r.begun = true
	if r.dropped == capEnded {
		r.dropped = noCap
		return // the paragraph of a drop cap goes on
	}
	if r.label == "" {
		r.label = r.lists.label(r.list, r.level)
	}
	if r.inTable && !r.intbl && !r.inCell {
		r.endTable()
	}
	if r.label == "" || r.inTable || r.heading > 0 {
		r.w.EndLists()
	}
	switch {
	case r.inTable && !r.inCell:
		r.w.Cell(1, 1)
		r.inCell = true
	case r.inTable:
	case r.heading > 0:
		r.w.Heading(r.heading)
	case r.label != "":
		r.item()
	default:
		if r.quote {
			r.w.Quote()
			r.quoted = true
		}
		r.w.Paragraph()
	}
}

func (r *rtf) endQuote() {
	if r.quoted {
		r.w.EndQuote()
		r.quoted = false
	}
}

// picture writes the alt text of a picture.
func (r *rtf) picture() {
	if r.alt.Len() > 0 {
		if !r.begun {
			r.begin()
		}
		r.w.Image(r.alt.String(), "", "")
	}
	r.alt.Reset()
}

// item begins an item of a list. A label with letters is shown, for the numbers of Markdown have none.
func (r *rtf) item() {
	label := strings.TrimSpace(r.label)
	digits := strings.TrimRight(label, ".)")
	number, err := strconv.Atoi(digits[strings.LastIndexByte(digits, '.')+1:])
	r.w.ItemAt(float64(r.level), 0.5, err == nil, 1, "")
	switch {
	case err == nil:
		r.w.Number(max(number, 0))
	case digits != label:
		r.w.Text(label + " ")
	}
}

func (r *rtf) endTable() {
	if r.inTable {
		r.w.EndTable()
		r.inTable, r.inCell = false, false
	}
}
