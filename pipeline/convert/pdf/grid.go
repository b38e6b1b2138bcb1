package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// rule is a straight line that is drawn along an axis.
type rule struct{ x0, y0, x1, y1 float64 }

// grid is a table by the rules around its cells.
type grid struct {
	rules  []rule
	xs, ys []float64   // of its rules, from the left and from the top
	cells  [][][]piece // by row and column; a row without text is nil
}

const (
	maxRules = 1000 // of a page; one with more of them is a drawing
	thick    = 3    // a rule is no thicker, and rules that are no further apart are one
	maxCell  = 2000 // bytes in a cell; what has more is a column of text in a frame
)

// grids finds the tables among the rules of a page: those that touch one another, around two rows and columns or more.
func grids(rules []rule) []*grid {
	if len(rules) > maxRules {
		return nil
	}
	var all []*grid
	for len(rules) > 0 {
		g := &grid{rules: rules[:1:1]}
		rules = rules[1:]
		for i := 0; i < len(g.rules); i++ {
			r, rest := g.rules[i], rules[:0:0]
			for _, o := range rules {
				if o.x0 <= r.x1+thick && r.x0 <= o.x1+thick && o.y0 <= r.y1+thick && r.y0 <= o.y1+thick {
					g.rules = append(g.rules, o)
				} else {
					rest = append(rest, o)
				}
			}
			rules = rest
		}
		for _, r := range g.rules {
			if r.x1-r.x0 <= thick {
				g.xs = append(g.xs, r.x0)
			} else {
				g.ys = append(g.ys, r.y0)
			}
		}
		g.xs, g.ys = apart(g.xs), apart(g.ys)
		slices.Reverse(g.ys)
		if len(g.xs) > 2 && len(g.ys) > 2 {
			all = append(all, g)
		}
	}
	return all
}

// apart sorts places, and leaves one of those that are close together.
func apart(at []float64) []float64 {
	slices.Sort(at)
	return slices.CompactFunc(at, func(a, b float64) bool { return math.Abs(a-b) <= thick })
}

// put puts a piece into its cell. One that reaches over several has its text in the first of them.
func (g *grid) put(p piece) bool {
	x, y := p.x+1, p.y+0.3*p.size
	col, row := -1, -1
	for _, edge := range g.xs {
		if edge <= x {
			col++
		}
	}
	for _, edge := range g.ys {
		if edge >= y {
			row++
		}
	}
	if col < 0 || row < 0 || col > len(g.xs)-2 || row > len(g.ys)-2 {
		return false
	}
	for row > 0 && !g.ruled(x, g.ys[row]) {
		row--
	}
	for col > 0 && !g.ruled(g.xs[col], y) {
		col--
	}
	if g.cells == nil {
		g.cells = make([][][]piece, len(g.ys)-1)
	}
	if g.cells[row] == nil {
		g.cells[row] = make([][]piece, len(g.xs)-1)
	}
	g.cells[row][col] = append(g.cells[row][col], p)
	return true
}

// ruled reports whether there is a rule at a place.
func (g *grid) ruled(x, y float64) bool {
	return slices.ContainsFunc(g.rules, func(r rule) bool {
		return x >= r.x0-thick && x <= r.x1+thick && y >= r.y0-thick && y <= r.y1+thick
	})
}

// isTable reports whether there are rows in it that have several cells, and no long text.
func (g *grid) isTable() bool {
	rows := 0
	for _, row := range g.cells {
		filled := 0
		for _, cell := range row {
			size := 0
			for _, p := range cell {
				size += len(strings.TrimSpace(p.text))
			}
			if size > maxCell {
				return false
			}
			if size > 0 {
				filled++
			}
		}
		if filled > 1 {
			rows++
		}
	}
	return rows > 1
}

// lines are those of the page; a grid stands where its first text does.
func (r *reader) lines() []line {
	tables := grids(r.rules)
	in := make([]int, len(r.pieces)) // which of them a piece is in
	for i, p := range r.pieces {
		in[i] = slices.IndexFunc(tables, func(g *grid) bool { return g.put(p) })
	}
	at := make([]int, len(tables)) // after which line each stands
	for i, g := range tables {
		if !g.isTable() {
			tables[i] = nil
		}
	}
	var all []line
	var flow []piece
	for i, p := range r.pieces {
		if in[i] < 0 || tables[in[i]] == nil {
			flow = append(flow, p)
			continue
		}
		where := &at[in[i]]
		if *where == 0 {
			all = append(append(all, lines(flow)...), line{y: p.y, size: p.size, grid: tables[in[i]]})
			flow, *where = nil, len(all)
		}
		all[*where-1].chars += utf8.RuneCountInString(p.text)
	}
	return append(all, lines(flow)...)
}

// grid writes a table. Rows and columns without any text are space between rules.
func (w *writer) grid(g *grid) {
	used := make([]bool, len(g.xs)-1)
	for _, row := range g.cells {
		for i, cell := range row {
			used[i] = used[i] || len(cell) > 0
		}
	}
	w.w.Table(true)
	for _, row := range g.cells {
		if row == nil {
			continue
		}
		w.w.Row()
		for i, cell := range row {
			if !used[i] {
				continue
			}
			w.w.Cell(1, 1)
			w.text(lines(cell), "")
			w.w.EndCell()
		}
	}
	w.w.EndTable()
}
