package markdown

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark is a kind of emphasis.
type Mark uint8

// Marks of emphasis; zero stands for a link.
const (
	Strong Mark = iota + 1
	Em
	Strike
)

var signs = [...]string{Strong: "**", Em: "*", Strike: "~~"}

// style is emphasis, or a link that text is in.
type style struct {
	mark        Mark
	link        int // tells links with the same target apart
	href, title string
}

// Push sets the text that follows in a style, until Pop. Styles within themselves are counted only.
func (w *Writer) Push(mark Mark) { w.push(style{mark: mark}) }

func (w *Writer) push(s style) {
	if w.nested[s.mark]++; w.nested[s.mark] == 1 && (s.mark > 0 || s.href != "") {
		w.want = append(w.want[:len(w.want):len(w.want)], s) // have may share what is there
	}
}

// Pop ends a style.
func (w *Writer) Pop(mark Mark) {
	if w.nested[mark] = max(w.nested[mark]-1, 0); w.nested[mark] == 0 {
		w.want = without(w.want, mark)
	}
}

func without(styles []style, mark Mark) []style {
	return slices.DeleteFunc(slices.Clone(styles), func(s style) bool { return s.mark == mark })
}

// Marked writes text in a style.
func (w *Writer) Marked(mark Mark, text string) {
	w.Push(mark)
	w.Text(text)
	w.Pop(mark)
}

// Styled writes what write does in text that is bold, italic or struck out.
func (w *Writer) Styled(bold, italic, strike bool, write func()) {
	marks := [...]bool{Strong: bold, Em: italic, Strike: strike}
	for m, on := range marks {
		if on {
			w.Push(Mark(m))
		}
	}
	write()
	for m, on := range marks {
		if on {
			w.Pop(Mark(m))
		}
	}
}

// Link makes the text that follows a link, until EndLink. A link without a target is text.
func (w *Writer) Link(href, title string) {
	w.links++
	w.push(style{link: w.links, href: href, title: title})
}

// EndLink ends a link.
func (w *Writer) EndLink() { w.Pop(0) }

// styles are what the text to come is set in.
func (w *Writer) styles() []style {
	if !w.head || w.nested[Strong] == 0 {
		return w.want
	}
	return without(w.want, Strong) // a heading is bold already
}

// sync closes the styles that end before the next text and opens those that begin with it. Marks stand next to the
// text, not next to white space: that is written between.
func (w *Writer) sync(want []style) {
	same := 0
	for same < len(want) && same < len(w.have) && want[same] == w.have[same] {
		same++
	}
	for i := len(w.have) - 1; i >= same; i-- {
		if s := w.have[i]; s.mark > 0 {
			w.out = append(w.out, signs[s.mark]...)
		} else {
			w.out = append(append(w.out, "]("...), destination(s.href, s.title)...)
			w.out = append(w.out, ')')
		}
	}
	w.gapInline()
	for _, s := range want[same:] {
		if s.mark > 0 {
			w.out = append(w.out, signs[s.mark]...)
		} else {
			w.out = append(w.out, '[')
		}
	}
	w.have = append(w.have[:0:0], want...)
}

// gapInline writes the white space that waits.
func (w *Writer) gapInline() {
	switch {
	case w.brk && w.inside && (w.head || len(w.tables) > 0):
		w.out = append(w.out, "<br>"...)
	case w.brk && w.inside:
		w.out = append(append(w.out, "  \n"...), w.prefix...)
	case w.space && w.inside:
		w.out = append(w.out, ' ')
	}
	w.space, w.brk = false, false
}

func destination(href, title string) string {
	href = strings.TrimSpace(href)
	if strings.ContainsAny(href, " <>\n\t") {
		href = strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", "\n", "", "\t", "").Replace(href)
	}
	if !balanced(href, '(', ')') {
		href = strings.NewReplacer("(", "%28", ")", "%29").Replace(href)
	}
	if title = strings.Join(strings.Fields(title), " "); title != "" {
		href += ` "` + strings.ReplaceAll(title, `"`, `\"`) + `"`
	}
	return href
}

// balanced reports whether each bracket that opens in a text closes in it, and the other way round.
func balanced(text string, open, end byte) bool {
	depth := 0
	for i := 0; i < len(text) && depth >= 0; i++ {
		switch text[i] {
		case open:
			depth++
		case end:
			depth--
		}
	}
	return depth == 0
}

// Break ends a line within a block.
func (w *Writer) Break() {
	if w.inside {
		w.brk, w.space = true, false
	}
}

// Image writes an image.
func (w *Writer) Image(alt, src, title string) {
	alt = strings.Join(strings.Fields(alt), " ")
	if !balanced(alt, '[', ']') {
		alt = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(alt)
	}
	w.Raw("![" + alt + "](" + destination(src, title) + ")")
}

// Raw writes a piece of a block that is Markdown already.
func (w *Writer) Raw(text string) {
	if text == "" {
		return
	}
	w.start()
	w.out = append(w.out, text...)
}

func (w *Writer) start() {
	w.begin()
	if want := w.styles(); len(want) != 0 || len(w.have) != 0 {
		w.sync(want)
	} else if w.space || w.brk {
		w.gapInline()
	}
}

// Code writes code within a block.
func (w *Writer) Code(text string) {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return
	}
	ticks := "`"
	for strings.Contains(text, ticks) {
		ticks += "`"
	}
	if len(ticks) > 1 {
		text = " " + text + " "
	}
	w.Raw(ticks + text + ticks)
}

// Text writes text. White space is one space, none at the beginning and end of a block, and characters that
// Markdown would take for its own are escaped.
func (w *Writer) Text(text string) {
	for len(text) > 0 {
		n := 0
		for n < len(text) && classes[text[n]] == isSpace {
			n++
		}
		if n > 0 {
			w.space = w.space || w.inside && !w.brk
			text = text[n:]
			continue
		}
		for n < len(text) && classes[text[n]] != isSpace {
			n++
		}
		// The spaces between words are written at once, as long as they are single.
		for n+1 < len(text) && text[n] == ' ' && classes[text[n+1]] != isSpace {
			n++
			for n < len(text) && classes[text[n]] != isSpace {
				n++
			}
		}
		w.words(text[:n])
		text = text[n:]
	}
}

// words writes text without white space at its ends.
func (w *Writer) words(text string) {
	first := !w.inside && w.lead == ""
	at := len(w.out)
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && classes[text[j]] < isSpecial {
			j++
		}
		if j > i {
			if i == 0 {
				w.start()
				at = len(w.out)
			}
			w.out = append(w.out, text[i:j]...)
			i = j
			continue
		}
		replacement, size := special(text, i, w.before(at), first && i == 0)
		if c := text[i]; (c == '[' || c == ']') && w.nested[0] > 0 && !balanced(text, '[', ']') {
			replacement = `\` + text[i:i+1] // the text of the link would end here, or begin
		}
		if replacement != "" {
			if i == 0 {
				w.start()
				at = len(w.out)
			}
			w.out = append(w.out, replacement...)
		}
		i += size
	}
	if first && len(w.out) > at {
		w.escapeNumber(at)
	}
}

// before is the last byte written since a position, or a space.
func (w *Writer) before(at int) byte {
	if len(w.out) > at {
		return w.out[len(w.out)-1]
	}
	if w.inside && !w.space && !w.brk && len(w.out) > 0 {
		return w.out[len(w.out)-1]
	}
	return ' '
}

// escapeNumber keeps "1. Text" at the beginning of a paragraph from being a list.
func (w *Writer) escapeNumber(at int) {
	i := at
	for i < len(w.out) && i-at < 9 && '0' <= w.out[i] && w.out[i] <= '9' {
		i++
	}
	if i > at && i < len(w.out) && (w.out[i] == '.' || w.out[i] == ')') && (i+1 == len(w.out) || w.out[i+1] == ' ') {
		w.out = append(w.out[:i], append([]byte{'\\'}, w.out[i:]...)...)
	}
}

type class uint8

const (
	isPlain class = iota
	isSpace
	isSpecial
)

var classes = func() (t [256]class) {
	for _, c := range " \t\r\n\f\v\x00" {
		t[c] = isSpace
	}
	for _, c := range "\\*_`[]<&#>+-=~|$\xc2\xef" {
		if c < utf8.RuneSelf {
			t[c] = isSpecial
		}
	}
	t[0xc2], t[0xef] = isSpecial, isSpecial // no-break space, soft hyphen; byte order mark
	return t
}()

// special tells how the character at i is written, and how long it is.
func special(text string, i int, before byte, first bool) (string, int) {
	c, next := text[i], byte(' ')
	if i+1 < len(text) {
		next = text[i+1]
	}
	switch c {
	case 0xc2:
		switch next {
		case 0xa0:
			return " ", 2
		case 0xad:
			return "", 2
		}
	case 0xef:
		if strings.HasPrefix(text[i:], "\uFEFF") {
			return "", 3
		}
	case '\\':
		if punctuation(next) {
			return `\\`, 1
		}
	case '`':
		return "\\`", 1
	case '*':
		if next != ' ' || before != ' ' || first {
			return `\*`, 1
		}
	case '_':
		if !(word(before) && word(next)) && !(before == ' ' && next == ' ') {
			return `\_`, 1
		}
	case '[':
		if end := strings.IndexByte(text[i:], ']'); end > 0 && i+end+1 < len(text) &&
			strings.IndexByte("([:", text[i+end+1]) >= 0 {
			return `\[`, 1
		}
	case '<':
		if word(next) || next == '/' || next == '!' || next == '?' {
			return `\<`, 1
		}
	case '&':
		if end := strings.IndexByte(text[i:min(len(text), i+12)], ';'); end > 1 && (word(next) || next == '#') {
			return "&amp;", 1
		}
	case '~':
		if next == '~' {
			return `\~`, 1
		}
	case '#', '>', '+', '-', '=':
		if first && (next == ' ' || next == c || c == '>') {
			return `\` + text[i:i+1], 1
		}
	}
	return text[i : i+1], 1
}

func word(c byte) bool {
	return letterOrDigit(c) || c >= utf8.RuneSelf
}

func letterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func punctuation(c byte) bool { return c > ' ' && c < 0x7f && !letterOrDigit(c) }
