package markdown

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// Options of [FromHTML] and [Writer.HTML].
type Options struct {
	// Base is what links are relative to; nil leaves them as they are.
	Base *url.URL
	// Image says what stands for the source of an image; nil leaves it as it is, but for data: URLs.
	Image func(src string) string
	// Link says where a link leads; empty: it is text. Nil leaves links as they are.
	Link func(href string) string
	// Hidden shows what the page hides, too.
	Hidden bool
	// Notes begins the labels of footnotes, so that those of the chapters of a book differ.
	Notes string
}

// FromHTML makes Markdown of a page or a fragment in UTF-8, and returns its title, too. It never fails: what is
// broken is read as browsers do, within reason.
func FromHTML(src string, o Options) (text, title string) {
	w := &Writer{out: make([]byte, 0, len(src)/3)}
	title = w.HTML(src, o)
	return w.String(), title
}

// HTML writes a page or a fragment, and returns its title. Of a page that shows nothing it writes what is hidden: a
// script would show it.
func (w *Writer) HTML(src string, o Options) string {
	at := w.Len()
	title := w.page(src, o)
	if w.Len() == at && !o.Hidden {
		o.Hidden = true
		w.page(src, o)
	}
	return title
}

func (w *Writer) page(src string, o Options) string {
	p := page{w: w, s: markup.NewHTML(src), o: o, notes: notesOf(src)}
	for {
		switch p.s.Next() {
		case markup.Text:
			p.text(p.s.Decoded())
		case markup.Open:
			p.open()
		case markup.Close:
			p.closeNamed(p.s.Name)
		case markup.End:
			for len(p.stack) > 0 {
				p.pop()
			}
			w.End()
			return strings.Join(strings.Fields(p.title), " ")
		}
	}
}

type page struct {
	w      *Writer
	s      *markup.Scanner
	o      Options
	stack  []element
	opened [kinds]int // how many elements of each kind are open
	title  string
	pre    strings.Builder
	code   strings.Builder
	notes  map[string]bool // the ids of footnotes
	around []*Writer       // of what a footnote is in
	labels []string        // of the footnotes that are open
}

type element struct {
	name string
	kind kind
}

// kind is what an element does.
type kind uint8

const (
	plain kind = iota // it changes nothing
	block
	heading
	strong
	em
	strike
	link
	list
	listItem
	table
	row
	cell
	quote
	pre
	code
	skip
	title
	term
	definition
	definitions
	superscript
	quoted
	summary
	ruby
	paragraph
	option
	drawing
	note
	kinds
)

// set is a set of kinds.
type set uint32

const inline set = 1<<plain | 1<<strong | 1<<em | 1<<strike | 1<<link | 1<<code | 1<<superscript | 1<<quoted |
	1<<ruby

func (k kind) in(s set) bool { return s>>k&1 != 0 }

var marks = map[kind]Mark{strong: Strong, em: Em, strike: Strike}

var elements = map[string]kind{
	"h1": heading, "h2": heading, "h3": heading, "h4": heading, "h5": heading, "h6": heading,
	"p": paragraph, "div": block, "section": block, "article": block, "header": block, "footer": block, "nav": block,
	"main": block, "aside": block, "form": block, "fieldset": block, "figure": block, "figcaption": block,
	"address": block, "details": block, "dl": definitions, "legend": block, "body": block, "center": block,
	"caption": block, "hgroup": block, "option": option, "optgroup": block, "noscript": block, "dialog": block,
	"b": strong, "strong": strong, "i": em, "em": em, "cite": em, "dfn": em, "var": em,
	"del": strike, "s": strike, "strike": strike, "a": link, "ul": list, "ol": list, "menu": list, "li": listItem,
	"table": table, "tr": row, "td": cell, "th": cell, "blockquote": quote, "pre": pre, "listing": pre,
	"code": code, "kbd": code, "samp": code, "tt": code,
	"script": skip, "style": skip, "template": skip, "object": skip, "rp": skip,
	"svg": drawing, "text": block, "foreignobject": block, "desc": skip, "metadata": skip,
	"title": title, "dt": term, "dd": definition, "sup": superscript, "q": quoted, "summary": summary, "rt": ruby,
}

// open handles a start tag.
func (p *page) open() {
	name := p.s.Name
	if p.void(name) {
		return
	}
	k := elements[name]
	p.endHidden(name, k)
	switch {
	case name == "template" && p.s.Attr("shadowrootmode") != "":
		k = plain
	case k == title && p.opened[drawing] > 0:
		k = skip
	case k == title && p.title != "":
		k = plain
	}
	if k == skip && p.o.Hidden && name != "script" && name != "style" {
		k = block
	}
	if p.opened[skip] > 0 || p.opened[pre] > 0 && k != skip && k != code || p.opened[code] > 0 && k != pre {
		k = plain
	}
	if p.hidden(name, k) || name == "span" && p.s.Attr("class") == "katex-html" {
		k = skip // what KaTeX draws is in the formula beside it
	}
	if k == block && preserved.MatchString(p.s.Attr("style")) {
		k = pre
	}
	k = p.noted(k)
	p.breakCode(name)
	p.imply(name, k)
	if p.s.Empty && (k == skip || k == plain || k == drawing || p.opened[drawing] > 0) {
		return
	}
	p.stack = append(p.stack, element{name, k})
	p.opened[k]++
	p.begin(name, k)
}

// endHidden ends an element that is not shown and whose end tag was left out.
func (p *page) endHidden(name string, k kind) {
	if len(p.stack) == 0 {
		return
	}
	top := p.stack[len(p.stack)-1]
	if top.kind == skip && (top.name == name && elements[name].in(1<<paragraph|1<<listItem|1<<row|1<<cell|1<<option) ||
		top.name == "p" && k.in(1<<block|1<<heading|1<<list|1<<table|1<<quote|1<<pre|1<<definitions)) {
		p.pop()
	}
}

// hidden reports whether an element is not shown. One around all of a page is: a script shows it.
func (p *page) hidden(name string, k kind) bool {
	_, hidden := p.s.Lookup("hidden")
	return !p.o.Hidden && name != "body" && name != "html" &&
		(hidden && k != plain || notShown.MatchString(p.s.Attr("style")))
}

var notShown = regexp.MustCompile(
	`(?i)(^|;)\s*(display\s*:\s*none|visibility\s*:\s*hidden|mso-hide\s*:\s*all)\s*(!\s*important\s*)?(;|$)`)

// preserved is the style of a block whose lines are code: text that is wrapped (pre-wrap) is none.
var preserved = regexp.MustCompile(`(?i)(^|;)\s*white-space\s*:\s*pre\s*(!\s*important\s*)?(;|$)`)

// breakCode ends a line of code where a block within begins or ends.
func (p *page) breakCode(name string) {
	if k := elements[name]; p.opened[pre] == 0 || p.opened[skip] > 0 || k != block && k != paragraph {
		return
	}
	if text := p.pre.String(); !strings.HasSuffix(text, "\n") {
		p.pre.WriteByte('\n')
	}
}

// void handles elements that hold nothing.
func (p *page) void(name string) bool {
	switch name {
	case "br":
		switch {
		case p.opened[pre] > 0:
			p.pre.WriteByte('\n')
		case p.opened[skip] == 0:
			p.w.Break()
		}
	case "hr":
		p.closeParagraph()
		p.w.Block("---")
	case "img":
		p.image()
	case "input":
		p.input()
	case "math":
		p.math()
	case "iframe", "frame", "video", "audio", "embed", "area":
		p.framed(name)
		return name == "embed" || name == "frame" || name == "area"
	case "base":
		if u, err := url.Parse(strings.TrimSpace(p.s.Attr("href"))); err == nil && u.IsAbs() && p.o.Base == nil {
			p.o.Base = u
		}
	case "meta", "link", "wbr", "col", "source", "track", "param":
	default:
		return false
	}
	return true
}

func (p *page) begin(name string, k kind) {
	w := p.w
	switch k {
	case block, paragraph, definitions, option, drawing:
		w.Paragraph()
	case heading:
		w.Heading(int(name[1] - '0'))
	case strong, em, strike:
		w.Push(marks[k])
	case link:
		href := p.s.Attr("href")
		if p.o.Link != nil {
			href = p.o.Link(href)
		}
		w.Link(p.resolve(href), p.s.Attr("title"))
	case list:
		start, err := strconv.Atoi(p.s.Attr("start"))
		if err != nil || start < 0 {
			start = 1
		}
		w.List(name == "ol", start)
	case listItem:
		w.Item()
		if n, err := strconv.Atoi(p.s.Attr("value")); err == nil && n >= 0 && len(w.items) > 0 &&
			w.items[len(w.items)-1].ordered {
			w.Number(n)
		}
	case table:
		w.Table(false)
	case row:
		w.Row()
	case cell:
		columns, _ := strconv.Atoi(p.s.Attr("colspan"))
		rows, _ := strconv.Atoi(p.s.Attr("rowspan"))
		w.Cell(min(columns, 1000), rows)
		if g := w.top(); name == "th" && g != nil {
			g.headed = true
		}
	case quote:
		w.Quote()
	case pre:
		w.End()
		p.pre.Reset()
		p.pre.WriteString(language(p.s.Attr("class")) + "\n")
	case code:
		if p.opened[pre] > 0 && p.opened[code] == 1 {
			if lang := language(p.s.Attr("class")); lang != "" && strings.TrimSpace(p.pre.String()) == "" {
				p.pre.Reset()
				p.pre.WriteString(lang + "\n")
			}
		}
	case skip:
		if name == "script" && strings.HasPrefix(p.s.Attr("type"), "math/tex") {
			p.stack[len(p.stack)-1].name = "math/tex"
		}
	case term, summary:
		w.End()
		w.Push(Strong)
	case definition:
		w.End()
		w.lead = ": "
		if w.gap == blank {
			w.gap = line
		}
	case quoted:
		w.words(`"`)
	case ruby:
		w.words("(")
	case note:
		p.around, p.labels = append(p.around, w), append(p.labels, p.o.Notes+p.s.Attr("id"))
		p.w = new(Writer)
	}
}

// finish does what an element does at its end.
func (p *page) finish(k kind) {
	w := p.w
	switch k {
	case block, heading, paragraph, definition, definitions, option, drawing:
		w.End()
	case strong, em, strike:
		w.Pop(marks[k])
	case link:
		w.EndLink()
	case list:
		w.EndList()
	case listItem:
		w.EndItem()
	case table:
		w.EndTable()
	case cell:
		w.EndCell()
	case quote:
		w.EndQuote()
	case pre:
		lang, text, _ := strings.Cut(p.pre.String(), "\n")
		if strings.TrimSpace(text) != "" {
			w.Fence(lang, text)
		}
	case code:
		if p.opened[pre] == 0 && p.opened[code] == 0 {
			w.Code(p.code.String())
			p.code.Reset()
		}
	case term, summary:
		w.Pop(Strong)
		w.End()
	case quoted:
		w.words(`"`)
	case ruby:
		w.words(")")
	case note:
		last := len(p.around) - 1
		p.w = p.around[last]
		p.w.Block("[^" + p.labels[last] + "]: " + strings.ReplaceAll(strings.TrimSpace(w.String()), "\n", "\n    "))
		p.around, p.labels = p.around[:last], p.labels[:last]
	}
}

func (p *page) text(t string) {
	switch {
	case p.opened[drawing] > 0 && strings.TrimSpace(t) == "":
	case p.opened[skip] > 0:
		if p.stack[len(p.stack)-1].name == "math/tex" {
			p.w.Raw("$" + strings.TrimSpace(t) + "$")
		}
	case p.opened[title] > 0:
		p.title += t
	case p.opened[pre] > 0:
		p.pre.WriteString(t)
	case p.opened[code] > 0:
		if p.code.Len() == 0 && strings.TrimLeft(t, " \n\t\r") != t {
			p.w.Text(" ")
		}
		p.code.WriteString(t)
	case p.opened[superscript] > 0:
		p.w.Text(raised(t))
	default:
		p.w.Text(t)
	}
}

// pop ends the innermost element.
func (p *page) pop() {
	e := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	p.opened[e.kind]--
	p.breakCode(e.name)
	p.finish(e.kind)
}

// lookback bounds how far up an end tag may close elements that were left open.
const lookback = 256

func (p *page) closeNamed(name string) {
	if name == "p" && p.opened[paragraph] == 0 {
		p.w.Paragraph()
		return
	}
	inCell := p.opened[cell] > 0
	for i := len(p.stack) - 1; i >= max(0, len(p.stack)-lookback); i-- {
		e := p.stack[i]
		if e.name == name || e.name == "math/tex" && name == "script" {
			for len(p.stack) > i {
				p.pop()
			}
			return
		}
		// The end of an inline element closes no block, and what is in a cell closes nothing around it.
		if k := elements[name]; inCell && e.kind == cell && k != table && k != row && name != "tbody" &&
			name != "thead" {
			return
		} else if k != plain && k.in(inline) && !e.kind.in(inline) {
			p.misnested(name, k)
			return
		}
	}
}

// misnested ends emphasis or a link that a block within it has not ended.
func (p *page) misnested(name string, k kind) {
	for i := len(p.stack) - 1; i >= max(0, len(p.stack)-lookback); i-- {
		if p.stack[i].name == name {
			p.stack = append(p.stack[:i], p.stack[i+1:]...)
			p.opened[k]--
			p.finish(k)
			return
		}
	}
}

// closeParagraph ends a paragraph whose end tag was left out.
func (p *page) closeParagraph() {
	if p.opened[paragraph] > 0 {
		p.closeUpTo(1<<paragraph, ^inline)
	}
}

// imply ends elements whose end tags may be left out.
func (p *page) imply(name string, k kind) {
	switch k {
	case paragraph, block, definitions, option, heading, list, table, quote, pre:
		p.closeParagraph()
	case listItem:
		p.closeUpTo(1<<listItem, 1<<list|1<<cell)
	case term, definition:
		p.closeUpTo(1<<term|1<<definition, 1<<definitions|1<<cell)
	case cell:
		p.closeUpTo(1<<cell, 1<<row|1<<table)
	case row:
		p.closeUpTo(1<<row, 1<<table)
	case link: // a link holds no link
		p.closeUpTo(1<<link, ^inline)
	case plain:
		if name == "tbody" || name == "thead" || name == "tfoot" {
			p.closeUpTo(1<<row, 1<<table)
		}
	}
	if k == option {
		p.closeUpTo(1<<option, 0)
	}
}

// closeUpTo ends the innermost element of some kinds, and those within it, unless it is beyond a barrier.
func (p *page) closeUpTo(is, barrier set) {
	for i := len(p.stack) - 1; i >= max(0, len(p.stack)-lookback); i-- {
		if k := p.stack[i].kind; k.in(is) {
			for len(p.stack) > i {
				p.pop()
			}
			return
		} else if k.in(barrier) {
			return
		}
	}
}
