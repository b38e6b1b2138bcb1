package markdown

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/texmath"
)

// resolve makes a link absolute.
func (p *page) resolve(href string) string {
	href = strings.TrimSpace(href)
	if len(href) > 11 && strings.EqualFold(href[:11], "javascript:") {
		return ""
	}
	if p.o.Base == nil || href == "" {
		return href
	}
	u, err := url.Parse(href)
	if err != nil {
		return href
	}
	return p.o.Base.ResolveReference(u).String()
}

func (p *page) image() {
	if p.opened[skip] > 0 || p.opened[title] > 0 {
		return
	}
	src := p.s.Attr("src")
	if lazy := cmp.Or(p.s.Attr("data-src"), p.s.Attr("data-original")); lazy != "" &&
		(src == "" || strings.HasPrefix(src, "data:")) {
		src = lazy
	}
	alt := p.s.Attr("alt")
	switch {
	case p.o.Image != nil:
		src = p.o.Image(src)
	case strings.HasPrefix(src, "data:"): // the picture itself is not a text
		src, _, _ = strings.Cut(src, ",")
		src, _, _ = strings.Cut(src, ";")
	}
	if p.opened[pre] > 0 || p.opened[code] > 0 || src == "" && alt == "" {
		return
	}
	p.w.Image(alt, p.resolve(src), p.s.Attr("title"))
}

// framed writes what another document in the page is: itself, if it is here, or a link to it.
func (p *page) framed(name string) {
	inner := p.s.Attr("srcdoc")
	switch href := cmp.Or(p.s.Attr("src"), p.s.Attr("href")); {
	case p.opened[skip] > 0:
	case inner != "":
		p.w.HTML(inner, p.o)
	case href != "" && (name != "area" || p.s.Attr("alt") != ""):
		p.w.Link(p.resolve(href), "")
		p.w.Text(cmp.Or(p.s.Attr("title"), p.s.Attr("alt"), name))
		p.w.EndLink()
	}
}

func (p *page) input() {
	if p.opened[skip] > 0 {
		return
	}
	switch strings.ToLower(p.s.Attr("type")) {
	case "checkbox":
		mark := "[ ]"
		if _, checked := p.s.Lookup("checked"); checked {
			mark = "[x]"
		}
		p.w.Raw(mark)
		p.w.Text(" ")
	case "", "text", "search", "email", "tel", "url", "number", "date", "submit", "button", "reset":
		p.w.Text(" " + p.s.Attr("value") + " ")
	case "image":
		p.w.Text(" " + p.s.Attr("alt") + " ")
	}
}

// math writes a formula: its TeX if the page has it, else its characters.
func (p *page) math() {
	tex, display := p.s.Attr("alttext"), p.s.Attr("display") == "block"
	if p.s.Empty {
		return
	}
	begin := *p.s
	n, err := new(markup.Tree).Read(p.s)
	if err != nil { // its elements do not close as they open: all that is sure is its text
		*p.s = begin
		var text strings.Builder
		for t := markup.Open; t != markup.End && (t != markup.Close || p.s.Name != "math"); {
			if t = p.s.Next(); t == markup.Text {
				text.WriteString(strings.TrimSpace(p.s.Decoded()))
			}
		}
		tex = cmp.Or(tex, texmath.Text(text.String()))
	} else {
		for c := range n.All {
			if c.Name == "annotation" && strings.Contains(c.Attr("encoding"), "tex") {
				tex = cmp.Or(tex, c.Content())
			}
		}
		tex = cmp.Or(tex, texmath.MathML(n))
	}
	if p.opened[skip] == 0 {
		p.w.Math(tex, display)
	}
}

// Math writes a formula in TeX.
func (w *Writer) Math(tex string, display bool) {
	tex = strings.Join(strings.Fields(tex), " ")
	switch {
	case tex == "":
	case display && len(w.tables) == 0:
		w.Block("$$" + tex + "$$")
	case display:
		w.Raw("$$" + tex + "$$")
	default:
		if n := len(w.out); n > 0 && w.out[n-1] == '$' && (n == 1 || w.out[n-2] != '\\') {
			w.Text(" ") // two dollars would begin a formula of its own
		}
		w.Raw("$" + tex + "$")
	}
}

// language is that of a code block, by the usual names of classes.
func language(class string) string {
	for c := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
			if l, ok := strings.CutPrefix(c, prefix); ok {
				return strings.Trim(l, ";`")
			}
		}
	}
	return ""
}

var raisedDigits = map[rune]rune{
	'0': '⁰', '1': '¹', '2': '²', '3': '³', '4': '⁴', '5': '⁵', '6': '⁶', '7': '⁷', '8': '⁸', '9': '⁹',
	'+': '⁺', '-': '⁻', '−': '⁻', '(': '⁽', ')': '⁾', 'n': 'ⁿ',
}

// raised is a superscript in characters of its own, where there are all of them; else it is left as it is.
func raised(t string) string {
	var b strings.Builder
	for _, r := range t {
		up, ok := raisedDigits[r]
		if !ok {
			return t
		}
		b.WriteRune(up)
	}
	return b.String()
}

// Superscript writes raised text.
func (w *Writer) Superscript(t string) { w.Text(raised(t)) }
