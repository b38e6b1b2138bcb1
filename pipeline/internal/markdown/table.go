package markdown

import (
	"slices"
	"strings"
)

// grid is a table that is being written.
type grid struct {
	rows   [][]string
	spans  []int // by column: how many rows more a cell from above takes
	col    int
	blocks bool // some cell holds more than lines: headings, code, tables
	data   bool // it is a table, whatever is in it
	headed bool // it has a cell that is marked as a heading
	inCell bool
	start  int  // of the cell in what was written
	outer  flow // around the cell
}

// maxTables is how deeply tables may be nested; those that are nested more deeply are blocks.
const maxTables = 16

// maxColumns bounds what the spans of a hostile table may cost.
const maxColumns = 16384

// Table begins a table. data tells that it is none that only arranges a page.
func (w *Writer) Table(data bool) {
	w.End()
	if len(w.tables) == maxTables {
		w.deeper++
		return
	}
	w.tables = append(w.tables, &grid{data: data})
}

func (w *Writer) top() *grid {
	if len(w.tables) == 0 {
		return nil
	}
	if w.deeper > 0 {
		w.End()
		return nil
	}
	return w.tables[len(w.tables)-1]
}

// Row begins a row.
func (w *Writer) Row() {
	g := w.top()
	if g == nil {
		return
	}
	w.EndCell()
	g.endRow()
	g.rows = append(g.rows, nil)
}

// endRow counts down the spans beyond the last cell of a row.
func (g *grid) endRow() {
	if len(g.rows) == 0 {
		return
	}
	for i := len(g.rows[len(g.rows)-1]); i < len(g.spans); i++ {
		g.spans[i] = max(g.spans[i]-1, 0)
	}
}

// Cell begins a cell that takes so many columns and rows.
func (w *Writer) Cell(columns, rows int) {
	g := w.top()
	if g == nil {
		return
	}
	w.EndCell()
	if len(g.rows) == 0 {
		w.Row()
	}
	row := &g.rows[len(g.rows)-1]
	g.spanned(row)
	columns = min(max(columns, 1), maxColumns-min(len(*row), maxColumns-1))
	g.col = len(*row)
	for range columns {
		*row = append(*row, "")
	}
	for len(g.spans) < len(*row) {
		g.spans = append(g.spans, 0)
	}
	for i := range columns {
		g.spans[g.col+i] = max(rows, 1) - 1
	}
	g.inCell = true
	g.start, g.outer, w.flow = len(w.out), w.flow, flow{}
	w.space, w.brk = false, false
}

// spanned leaves room for cells from the rows above.
func (g *grid) spanned(row *[]string) {
	for len(*row) < len(g.spans) && g.spans[len(*row)] > 0 {
		g.spans[len(*row)]--
		*row = append(*row, "")
	}
}

// EndCell ends a cell.
func (w *Writer) EndCell() {
	g := w.top()
	if g == nil || !g.inCell {
		return
	}
	w.EndLists()
	w.End()
	text := strings.TrimSpace(string(w.out[g.start:]))
	w.out, w.flow = w.out[:g.start], g.outer
	g.inCell = false
	g.rows[len(g.rows)-1][g.col] = text
	g.blocks = g.blocks || !g.data && strings.Contains(text, "\n") && structured(text)
}

// structured reports whether a cell holds what has no room in a line of a table.
func structured(text string) bool {
	for l := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(l, "#") || strings.HasPrefix(l, "|") || strings.HasPrefix(l, "```") {
			return true
		}
	}
	return false
}

// EndTable writes the table.
func (w *Writer) EndTable() {
	if w.deeper > 0 {
		w.End()
		w.deeper--
		return
	}
	g := w.top()
	if g == nil {
		return
	}
	w.EndCell()
	w.tables = w.tables[:len(w.tables)-1]
	columns := 0
	for _, row := range g.rows {
		columns = max(columns, len(row))
	}
	outer := w.top()
	switch {
	case columns == 0:
	case outer != nil && outer.data: // it is in a cell of one
		for _, row := range g.rows {
			for i, c := range row {
				row[i] = oneLine(c)
			}
			w.Block(strings.Join(row, " | "))
		}
	case g.blocks || columns == 1 && !g.data && !g.headed:
		for _, row := range g.rows {
			for _, c := range row {
				w.Block(c)
			}
		}
	default:
		w.Block(g.pipes(columns))
	}
}

// pipes draws the table. Rows without any text are left out.
func (g *grid) pipes(columns int) string {
	var b strings.Builder
	first := true
	for _, row := range g.rows {
		if !slices.ContainsFunc(row, func(c string) bool { return c != "" }) {
			continue
		}
		b.WriteByte('|')
		for i := range columns {
			b.WriteByte(' ')
			if i < len(row) {
				b.WriteString(oneLine(row[i]))
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
		if first {
			b.WriteString("|" + strings.Repeat(" --- |", columns) + "\n")
			first = false
		}
	}
	return b.String()
}

// escapePipes leaves pipes that are escaped already.
var escapePipes = strings.NewReplacer(`\|`, `\|`, "|", `\|`)

// oneLine makes a line of blocks.
func oneLine(text string) string {
	if strings.IndexByte(text, '|') >= 0 {
		text = escapePipes.Replace(text)
	}
	if strings.IndexByte(text, '\n') < 0 {
		return text
	}
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "<br>")
}
