package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table aligns cells in columns and keeps within a width. The first rows decide how wide the columns are; then
// it prints row by row, so that a long listing begins at once and needs no memory.
type Table struct {
	w       io.Writer
	bold    bool
	within  int
	header  []string
	right   []bool
	widths  []int // 0: the column is left out
	ids     []int // by column: how much is printed of an id; 0: all
	pending [][]string
	begun   bool
}

const (
	rowsToAlign = 300
	minColumn   = 6  // to which a column is cut, before the next one is
	minID       = 18 // of an id: what states the time, to a fraction of a millisecond
	idLength    = 36
	between     = 2
)

// NewTable makes a table of at most that many columns of characters; 0: as wide as it needs. A column whose
// name begins with ">" is aligned to the right.
func NewTable(w io.Writer, bold bool, within int, columns ...string) *Table {
	t := &Table{w: w, bold: bold, within: within, widths: make([]int, len(columns)), ids: make([]int, len(columns))}
	for _, c := range columns {
		name, right := strings.CutPrefix(c, ">")
		t.header = append(t.header, name)
		t.right = append(t.right, right)
	}
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) error {
	row := make([]string, len(t.header))
	for i := range row {
		row[i] = OneLine(cells[i])
	}
	if t.begun {
		return t.print(row)
	}
	if t.pending = append(t.pending, row); len(t.pending) >= rowsToAlign {
		return t.Flush()
	}
	return nil
}

// Flush prints what waited for the widths.
func (t *Table) Flush() error {
	if t.begun {
		return nil
	}
	t.begun = true
	for i := range t.header {
		t.measure(i)
	}
	if t.within > 0 {
		t.fit()
	}
	if t.bold {
		_, _ = io.WriteString(t.w, "\x1b[1m")
	}
	err := t.print(t.header)
	if t.bold {
		_, _ = io.WriteString(t.w, "\x1b[0m")
	}
	for _, row := range t.pending {
		if err != nil {
			return err
		}
		err = t.print(row)
	}
	t.pending = nil
	return err
}

// measure finds the width of a column.
func (t *Table) measure(i int) {
	t.widths[i] = Width(t.header[i])
	for _, row := range t.pending {
		t.widths[i] = max(t.widths[i], Width(t.cell(row, i)))
	}
}

func (t *Table) over() int {
	sum := -between
	for _, w := range t.widths {
		if w > 0 {
			sum += w + between
		}
	}
	return sum - t.within
}

// fit makes the table narrower, in this order: ids are shortened, columns without a value, or with zeros only, are
// left out, the last column is cut, and then others, the widest first. Headings are cut only where that is not enough,
// and figures never.
func (t *Table) fit() {
	for i := range t.header {
		if t.over() <= 0 {
			return
		}
		if n := t.shortestID(i); n > 0 {
			t.ids[i] = n
			t.measure(i)
		}
	}
	for i := range t.header {
		if t.over() > 0 && t.all(i, "") {
			t.widths[i] = 0
		}
	}
	for i := len(t.header) - 1; i >= 0; i-- { // the columns that say most stand first
		if t.over() > 0 && t.right[i] && t.all(i, "0") {
			t.widths[i] = 0
		}
	}
	for _, headings := range []bool{false, true} {
		at := -1
		for i, w := range t.widths {
			if w > 0 && !t.right[i] {
				at = i
			}
		}
		for at >= 0 && t.over() > 0 {
			t.widths[at] = max(min(t.widths[at], t.least(at, headings)), t.widths[at]-t.over())
			at = t.widest(headings)
		}
	}
}

// least is the width to which a column is cut, with its heading or not.
func (t *Table) least(i int, headings bool) int {
	if headings {
		return max(minColumn, t.ids[i])
	}
	return max(minColumn, t.ids[i], Width(t.header[i]))
}

// all reports whether a column has that value, or none, in every row.
func (t *Table) all(i int, value string) bool {
	return !slices.ContainsFunc(t.pending, func(row []string) bool { return row[i] != "" && row[i] != value })
}

// widest is the widest column that may be cut; -1 for none.
func (t *Table) widest(headings bool) int {
	at := -1
	for i, w := range t.widths {
		if !t.right[i] && w > t.least(i, headings) && (at < 0 || w > t.widths[at]) {
			at = i
		}
	}
	return at
}

// shortestID is how much of the ids in a column tells them apart; 0 if its cells are no ids. Messages may have ids that
// Pawl did not make.
func (t *Table) shortestID(i int) int {
	all := map[string]bool{}
	for _, row := range t.pending {
		if row[i] == "" {
			continue
		}
		if !isID(row[i]) && (t.header[i] != "ID" || Width(row[i]) != len(row[i])) {
			return 0
		}
		all[row[i]] = true
	}
	if len(all) == 0 {
		return 0
	}
	for n := minID; n <= idLength; n++ {
		short := map[string]bool{}
		for id := range all {
			short[id[:min(n, len(id))]] = true
		}
		if len(short) == len(all) {
			return n
		}
	}
	return 0
}

// isID reports whether s is an id as Pawl makes them.
func isID(s string) bool {
	return len(s) == idLength && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-'
}

func (t *Table) cell(row []string, i int) string {
	if n := t.ids[i]; n > 0 && n < len(row[i]) && Width(row[i]) == len(row[i]) {
		return row[i][:n]
	}
	return row[i]
}

func (t *Table) print(row []string) error {
	var b strings.Builder
	for i := range row {
		if t.widths[i] == 0 {
			continue
		}
		c := t.cell(row, i)
		if t.within > 0 && !t.right[i] {
			c = Cut(c, t.widths[i])
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", between))
		}
		fill := strings.Repeat(" ", max(0, t.widths[i]-Width(c)))
		if t.right[i] {
			c, fill = fill+c, ""
		}
		b.WriteString(c + fill)
	}
	_, err := fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	return err
}
