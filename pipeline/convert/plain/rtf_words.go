package plain

import (
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// destinations are words that say what a group is; its text is not shown with the others.
var destinations = wordSet(`fonttbl colortbl stylesheet info header headerl headerr headerf footer footerl footerr footerf
	shprslt formfield listtable listoverridetable revtbl rsidtbl generator themedata colorschememapping latentstyles datastore xmlnstbl object
	nonshppict mmathPr fldinst pntext listtext leveltext levelnumbers htmltag`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// charWords are words that stand for one.
var charWords = map[string]string{"tab": " ", "column": " ", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’",
	"ldblquote": "“", "rdblquote": "”", "bullet": "•"}

// word carries out a control word.
func (r *rtf) word(word string, n int, has bool) {
	s := &r.state
	switch word {
	case "f":
		s.font = n
	case "deff":
		r.stack[0].font, s.font = n, n
	case "fcharset":
		if s.dest == "fonttbl" {
			r.fonts[s.font] = rtfCharsets[n]
		}
	case "ansicpg":
		r.page = n
	case "mac":
		r.page = 10000
	case "uc":
		s.uc = n
	case "u":
		r.flush()
		if n < 0 {
			n += 65536
		}
		r.unicode(n)
		r.surplus = s.uc
	case "s":
		s.style = n
		if s.dest == "" {
			r.heading, r.quote = r.headings[n], r.quotes[n]
		}
	case "outlinelevel":
		if s.dest == "" && n < 6 {
			r.heading = n + 1
		}
	case "fromhtml":
		r.isHTML = true
	case "fldrslt":
		r.fieldResult()
	case "ilvl":
		r.level = min(max(n, 0), 8)
	case "shptxt":
		s.dest = ""
	case "result", "dptxbxtext": // of an object; of a drawing
		if s.dest == "object" || s.dest == "*" {
			s.dest = ""
		}
	case "ffl", "ffres", "ffdefres":
		r.form.word(s, word, n)
	case "pict", "sn", "sv", "atnauthor", "footnote", "annotation":
		r.aside(word)
	case "ls", "dropcapli":
		if s.dest == "" && word == "ls" {
			r.list = n
		} else if s.dest == "" && n > 0 {
			r.dropped = inCap
		}
	default:
		s.look(word, !has || n != 0)
		r.layout(word)
	}
	r.lists.word(s.dest, word, n)
	if destinations[word] && (!r.margins || !strings.HasPrefix(word, "header") && !strings.HasPrefix(word, "footer")) {
		s.dest = word
	}
	switch word {
	case "fldinst":
		if outer := r.stack[len(r.stack)-1].dest; outer != word {
			r.link.Reset()
			r.form = rtfForm{result: 25}
		}
	case "listtext", "pntext":
		r.label = " " // also where it has no text
	}
	if s.dest == "stylesheet" && (word == "s" || word == "stylesheet") {
		r.name.Reset()
	}
}

// word carries out a word about a field of a form.
func (f *rtfForm) word(s *rtfState, word string, n int) {
	switch word {
	case "ffres":
		f.result = n
	case "ffdefres":
		f.otherwise = n
	default:
		s.dest = word
		f.entries = append(f.entries, "")
	}
}

// look carries out a word about characters.
func (s *rtfState) look(word string, on bool) {
	switch word {
	case "b":
		s.bold = on
	case "i":
		s.italic = on
	case "strike", "striked":
		s.strike = on
	case "v":
		s.hidden = on
	case "deleted":
		s.deleted = on
	case "plain":
		s.bold, s.italic, s.strike, s.hidden, s.deleted = false, false, false, false, false
	case "htmlrtf":
		s.double = on
	}
}

// aside begins a group of what stands beside the text: a picture, a note or a comment.
func (r *rtf) aside(word string) {
	s := &r.state
	switch word {
	case "pict":
		if s.dest != "nonshppict" { // that repeats what is in another format
			s.dest = word
		}
	case "sn", "sv":
		if s.dest == "pict" {
			s.dest = word
		}
		if word == "sn" {
			r.property.Reset()
		}
	case "atnauthor":
		s.dest = word
		r.author.Reset()
	default:
		s.dest = "footnote"
		if r.notes = append(r.notes, ""); word == "annotation" && r.author.Len() > 0 {
			r.notes[len(r.notes)-1] = r.author.String() + ": "
		}
		r.w.Raw("[^" + strconv.Itoa(len(r.notes)) + "]")
	}
}

// unicode gathers a character; the halves of a pair come one after the other.
func (r *rtf) unicode(n int) {
	switch {
	case n >= 0xd800 && n < 0xdc00:
		r.high = n
	case n >= 0xdc00 && n < 0xe000 && r.high != 0:
		r.text(string(rune((r.high-0xd800)<<10 + n - 0xdc00 + 0x10000)))
		r.high = 0
	default:
		r.text(string(rune(n)))
	}
}

// layout carries out a word about paragraphs and tables, or one that stands for a character.
func (r *rtf) layout(word string) {
	if r.isHTML && (word == "par" || word == "line") {
		r.text("\n")
		return
	}
	if r.state.dest != "" && !r.isHTML {
		return
	}
	if c := charWords[word]; c != "" {
		r.text(c)
		return
	}
	if r.isHTML {
		return
	}
	switch word {
	case "par", "sect", "page":
		if r.inTable && r.inCell && r.begun {
			r.w.Break()
			return
		}
		if r.dropped == inCap && r.begun {
			r.dropped, r.begun = capEnded, false
			return
		}
		if !r.inTable {
			r.w.End()
			r.endQuote()
		}
		r.begun = false
		r.label = ""
	case "pard":
		r.heading, r.level, r.list = 0, 0, 0
		r.quote, r.intbl, r.begun = false, false, false
	case "intbl":
		r.intbl = true
		r.beginTable()
	case "trowd":
		r.beginTable()
	case "cell":
		if !r.inCell {
			r.w.Cell(1, 1)
		}
		r.w.EndCell()
		r.inCell, r.begun = false, false
	case "row":
		r.w.Row()
		r.begun = false
	case "line":
		r.w.Break()
	}
}

// beginTable begins a table, unless there is one.
func (r *rtf) beginTable() {
	if !r.inTable {
		r.w.EndLists()
		r.w.Table(true)
		r.w.Row()
		r.inTable = true
	}
}

// fieldResult begins what a field shows: a link, if its instruction was one.
func (r *rtf) fieldResult() {
	target, ok := strings.CutPrefix(strings.TrimSpace(r.link.String()), "HYPERLINK")
	if r.state.dest != "" {
		return // a field within the instruction of another one is part of it
	}
	r.link.Reset()
	if !ok {
		return
	}
	if target = strings.TrimSpace(target); strings.HasPrefix(target, `\l`) {
		return // to a bookmark, which Markdown does not have
	}
	target = strings.Trim(target, `"`)
	if !r.begun {
		r.begin() // the cell or paragraph that the link is in
	}
	r.w.Link(target, "")
	r.state.linked = true
}

// unresolved writes what a field shows whose result says nothing.
func (r *rtf) unresolved() {
	instruction := strings.TrimSpace(r.link.String())
	text, tex := doc.Field(instruction)
	chosen := r.form.result
	if chosen == 25 { // nothing is
		chosen = r.form.otherwise
	}
	switch {
	case instruction == "FORMCHECKBOX":
		text = map[bool]string{true: "[x] ", false: "[ ] "}[chosen == 1]
	case instruction == "FORMDROPDOWN" && chosen >= 0 && chosen < len(r.form.entries):
		text = r.form.entries[chosen]
	}
	if text+tex == "" {
		return
	}
	if r.text(text); !r.begun {
		r.begin()
	}
	r.w.Math(tex, false)
}

func (r *rtf) endGroup() {
	if len(r.stack) == 0 {
		return
	}
	outer := r.stack[len(r.stack)-1]
	if r.state.linked && !outer.linked {
		r.w.EndLink()
	}
	switch {
	case r.state.dest == "stylesheet":
		r.name.Reset()
	case r.state.dest == "pict" && outer.dest != "pict":
		r.picture()
	}
	code := r.state.dest == "fldinst" && outer.dest == ""
	if r.state = outer; code {
		r.unresolved()
	}
	r.stack = r.stack[:len(r.stack)-1]
}
