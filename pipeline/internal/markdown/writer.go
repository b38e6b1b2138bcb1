// Package markdown writes Markdown (CommonMark with GitHub's tables and strike-through, footnotes, and TeX between
// dollar signs), and makes it from HTML.
package markdown

import (
	"bytes"
	"strconv"
	"strings"
)

// Writer writes Markdown block by block. Blocks begin by themselves with their first text, and end with [Writer.End]
// or when another one is asked for. The zero value is ready.
type Writer struct {
	flow
	out    []byte
	space  bool // white space that waits for a text to follow it
	brk    bool // a line break that waits for a text to follow it
	links  int
	tables []*grid
	deeper int // tables that are nested too deeply to be shown
	flat   int // quotes that are nested too deeply to be shown
}

// flow is the state of a sequence of blocks: those of the document, or those of a cell.
type flow struct {
	prefix []byte // of each line: quotes and the indentation of lists
	marker string // of a list item that has no text yet
	lead   string // of a heading that has no text yet
	gap    gap    // what comes before the next block
	inside bool   // of a block that has text
	head   bool   // of a heading
	items  []item

	want, have []style         // of the text to come, and of the text before
	nested     [Strike + 1]int // how often a link and each mark were asked for and not yet ended
}

// maxPrefix bounds what nested quotes and lists put before each line; deeper ones look like those around them.
const maxPrefix = 100

type gap uint8

const (
	none gap = iota
	line
	blank
)

type item struct {
	prefix int // length of the prefix around the list
	ordered,
	begun bool // it has an item
	next  int
	depth float64 // of [Writer.ItemAt]
	list  string
}

// marker is what the n-th item begins with.
func (i *item) marker(n int) string {
	if i.ordered {
		return strconv.Itoa(n) + ". "
	}
	return "- "
}

// String is what was written.
func (w *Writer) String() string {
	w.End()
	return string(append(bytes.TrimRight(w.out, "\n "), '\n'))
}

// Len is how much was written so far.
func (w *Writer) Len() int { return len(w.out) }

// End ends the block.
func (w *Writer) End() {
	w.space, w.brk = false, false
	if w.inside {
		w.sync(nil)
		w.inside = false
		w.gap = blank
	}
	w.head, w.lead = false, ""
}

// Paragraph begins a paragraph, unless a heading has just begun.
func (w *Writer) Paragraph() {
	if w.inside || w.lead == "" {
		w.End()
	}
}

// begin starts a block if there is none: with the lines between, the prefix, and the mark of a list or heading.
func (w *Writer) begin() {
	if w.inside {
		return
	}
	w.startLine()
	w.out = append(w.out, w.lead...)
	w.lead = ""
	w.inside = true
}

func (w *Writer) startLine() {
	switch w.gap {
	case blank:
		w.out = append(w.out, '\n')
		w.out = append(w.out, bytes.TrimRight(w.prefix, " ")...)
		fallthrough
	case line:
		w.out = append(w.out, '\n')
		w.out = append(w.out, w.prefix...)
	case none:
		if len(w.out) == 0 || w.out[len(w.out)-1] == '\n' {
			w.out = append(w.out, w.prefix...)
		}
	}
	w.gap = none
	if w.marker != "" {
		w.out = append(w.out, w.marker...)
		if len(w.prefix) < maxPrefix {
			w.prefix = append(w.prefix, "          "[:min(len(w.marker), 10)]...)
		}
		w.marker = ""
	}
}

// Heading begins a heading of level 1 to 6.
func (w *Writer) Heading(level int) {
	w.End()
	w.head, w.lead = true, "######"[:min(max(level, 1), 6)]+" "
}

// Title writes a heading of level 1 to 6.
func (w *Writer) Title(level int, text string) {
	w.Heading(level)
	w.Text(text)
	w.End()
}

// Quote begins a quotation; EndQuote ends it.
func (w *Writer) Quote() {
	w.End()
	if len(w.prefix) > maxPrefix {
		w.flat++
		return
	}
	switch {
	case w.marker != "" || w.gap == none && len(w.out) > 0 && len(w.prefix) > 0:
		w.startLine()
		w.out = append(w.out, "> "...)
	case w.gap == blank: // the empty line before is not part of the quotation
		w.out = append(w.out, '\n')
		w.out = append(w.out, bytes.TrimRight(w.prefix, " ")...)
		w.gap = line
	}
	w.prefix = append(w.prefix, "> "...)
}

// EndQuote ends a quotation.
func (w *Writer) EndQuote() {
	w.End()
	if w.flat > 0 {
		w.flat--
		return
	}
	if len(w.prefix) >= 2 {
		w.prefix = w.prefix[:len(w.prefix)-2]
	}
	if len(w.out) > 0 {
		w.gap = blank
	}
}

// List begins a list; start is the number of its first item, if it is ordered.
func (w *Writer) List(ordered bool, start int) {
	w.End()
	if w.gap == blank && len(w.items) > 0 {
		w.gap = line
	}
	// A list directly in a list belongs to the item before it.
	if n := len(w.items); n > 0 && w.marker == "" && len(w.prefix) == w.items[n-1].prefix && w.items[n-1].begun {
		w.prefix = append(w.prefix, strings.Repeat(" ", len(w.items[n-1].marker(w.items[n-1].next-1)))...)
	}
	w.items = append(w.items, item{prefix: len(w.prefix), ordered: ordered, next: start})
}

// EndList ends a list.
func (w *Writer) EndList() {
	w.EndItem()
	if len(w.items) == 0 {
		return
	}
	if w.gap == line {
		w.gap = blank
	}
	w.items = w.items[:len(w.items)-1]
}

// EndLists ends all lists.
func (w *Writer) EndLists() {
	for len(w.items) > 0 {
		w.EndList()
	}
}

// ItemAt begins an item by its depth, in any unit, and ends and begins the lists around it. Depths that differ by slack
// at most are one. An item goes on with a list that is ordered or not as it is; an ordered one only with the list of
// the same name. start is the number of the first item of a list that it begins.
func (w *Writer) ItemAt(depth, slack float64, ordered bool, start int, list string) {
	for len(w.items) > 0 {
		top := &w.items[len(w.items)-1]
		if depth > top.depth+slack ||
			depth > top.depth-slack && top.ordered == ordered && (top.list == list || !ordered) {
			break
		}
		w.EndList()
	}
	if len(w.items) == 0 || depth > w.items[len(w.items)-1].depth+slack {
		w.List(ordered, start)
		top := &w.items[len(w.items)-1]
		top.depth, top.list = depth, list
	}
	w.Item()
}

// Item begins an item of the list.
func (w *Writer) Item() {
	if len(w.items) == 0 {
		w.List(false, 1)
	}
	w.EndItem()
	if w.marker != "" { // an item that begins with a list
		w.startLine()
		w.items[len(w.items)-1].prefix = len(w.prefix)
	}
	top := &w.items[len(w.items)-1]
	w.marker = top.marker(top.next)
	top.next++
	if w.gap == blank && top.begun {
		w.gap = line
	}
	top.begun = true
}

// Number makes the item that was just begun the n-th of its list.
func (w *Writer) Number(n int) {
	if len(w.items) > 0 && w.marker != "" {
		w.marker = strconv.Itoa(n) + ". "
		w.items[len(w.items)-1].next = n + 1
	}
}

// EndItem ends an item.
func (w *Writer) EndItem() {
	w.End()
	if len(w.items) == 0 {
		return
	}
	top := &w.items[len(w.items)-1]
	if w.marker != "" && top.begun {
		w.marker = ""
	}
	if len(w.prefix) > top.prefix {
		w.prefix = w.prefix[:top.prefix]
	}
}

// Fence writes a block of code.
func (w *Writer) Fence(lang, code string) {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	w.Block(fence + lang + "\n" + strings.Trim(code, "\n") + "\n" + fence)
}

// Block writes a block that is Markdown already.
func (w *Writer) Block(text string) {
	w.End()
	if text = strings.Trim(text, "\n"); text == "" {
		return
	}
	w.startLine()
	for {
		l, rest, more := strings.Cut(text, "\n")
		w.out = append(w.out, l...)
		if !more {
			break
		}
		w.out = append(w.out, '\n')
		if rest != "" && rest[0] != '\n' {
			w.out = append(w.out, w.prefix...)
		} else {
			w.out = append(w.out, bytes.TrimRight(w.prefix, " ")...)
		}
		text = rest
	}
	w.gap = blank
}
