package plain

import (
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// The paragraph of a drop cap: it is read, or it has ended and the one after it belongs to it.
const (
	noCap = iota
	inCap
	capEnded
)

// rtfLists are the lists of a document, for items that do not carry their label as text.
type rtfLists struct {
	levels []rtfLevel         // of the list that is being read
	byID   map[int][]rtfLevel // by its listid
	id     int                // that an override names
	by     map[int][]rtfLevel // by the number that paragraphs state
	counts map[int]*[9]int
}

type rtfLevel struct {
	format, start int
	text          string // of a label: its length, then the text, with a byte for the number of each level
}

// word reads the tables of lists.
func (l *rtfLists) word(dest, word string, n int) {
	if dest != "listtable" && dest != "listoverridetable" {
		return
	}
	if l.byID == nil {
		l.byID, l.by, l.counts = map[int][]rtfLevel{}, map[int][]rtfLevel{}, map[int]*[9]int{}
	}
	last := len(l.levels) - 1
	switch {
	case word == "list":
		l.levels = nil
	case word == "listlevel" && last < 8:
		l.levels = append(l.levels, rtfLevel{start: 1})
	case (word == "levelnfc" || word == "levelnfcn") && last >= 0 && dest == "listtable":
		l.levels[last].format = n
	case word == "levelstartat" && last >= 0 && dest == "listtable":
		l.levels[last].start = n
	case word == "listid" && dest == "listtable":
		l.byID[n] = l.levels
	case word == "listid":
		l.id = n
	case word == "ls" && dest == "listoverridetable":
		l.by[n], l.counts[n] = l.byID[l.id], new([9]int)
	}
}

// rtfFormats are formats of numbers, by what RTF calls them. Others are decimal, 23 is a bullet and 255 nothing.
var rtfFormats = map[int]string{1: "upperRoman", 2: "lowerRoman", 3: "upperLetter", 4: "lowerLetter"}

// label counts an item, and returns its label; empty: it is none.
func (l *rtfLists) label(list, level int) string {
	levels := l.by[list]
	if level >= len(levels) || levels[level].format == 255 {
		return ""
	}
	counts := l.counts[list]
	if clear(counts[level+1:]); counts[level] == 0 {
		counts[level] = levels[level].start
	} else {
		counts[level]++
	}
	if levels[level].format == 23 {
		return " "
	}
	own := string(rune(level))
	text := strings.TrimSuffix(levels[level].text, ";")
	_, length := utf8.DecodeRuneInString(text)
	if text = text[length:]; !strings.Contains(text, own) {
		text = own + "."
	}
	for i := range level + 1 {
		n := max(counts[i], levels[i].start)
		text = strings.ReplaceAll(text, string(rune(i)), doc.Numeral(n, rtfFormats[levels[i].format]))
	}
	return text
}
