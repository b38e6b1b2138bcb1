package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// line is what stands side by side: cells, which are one unless there are gaps between.
type line struct {
	y, size float64
	cells   []span
	bold    bool
	mono    bool
	chars   int
	item    string // mark of a list at its beginning; empty: it has none
	grid    *grid  // a table that stands here; nil: it is a line
}

// span is a part of a line without a gap.
type span struct {
	x, end float64
	parts  []piece
}

func (s *span) text() string { return strings.TrimSpace(s.raw()) }

func (s *span) raw() string {
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(p.text)
	}
	return b.String()
}

func (l *line) text() string {
	parts := make([]string, len(l.cells))
	for i := range l.cells {
		parts[i] = l.cells[i].text()
	}
	return strings.Join(parts, " ")
}

// lines puts pieces together that stand on one line, in the order in which they were written.
func lines(pieces []piece) []line {
	var all []line
	for _, p := range pieces {
		if strings.TrimSpace(p.text) == "" {
			if len(all) > 0 && p.text != "" { // a space that was written by itself
				last := &all[len(all)-1]
				c := &last.cells[len(last.cells)-1]
				if math.Abs(last.y-p.y) < p.size*0.5 && p.x >= c.end-p.size && p.x < c.end+p.size {
					c.parts = append(c.parts, piece{text: " ", size: p.size, font: p.font})
					c.end = max(c.end, p.end)
				}
			}
			continue
		}
		if len(all) == 0 || !all[len(all)-1].add(p) {
			all = append(all, line{
				y: p.y, size: p.size, bold: p.font.bold, mono: p.font.mono, cells: []span{{p.x, p.end, []piece{p}}},
				chars: utf8.RuneCountInString(p.text),
			})
		}
	}
	return rows(all)
}

// add puts a piece at the end of a line, if it goes there.
func (l *line) add(p piece) bool {
	last := &l.cells[len(l.cells)-1]
	high := math.Max(l.size, p.size)
	gap := p.x - last.end
	if p.rtl && last.parts[len(last.parts)-1].rtl {
		gap = last.x - p.end
	}
	if math.Abs(l.y-p.y) > high*0.5 || gap < -high {
		return false
	}
	wide := high * 1.5
	if last.parts[len(last.parts)-1].object != p.object {
		wide = high
	}
	if gap > wide {
		l.cells = append(l.cells, span{p.x, p.end, []piece{p}})
	} else {
		if gap > math.Min(l.size, p.size)*0.3 && !strings.HasPrefix(p.text, " ") {
			last.parts = append(last.parts, piece{text: " ", font: p.font, object: p.object,
				link: sameLink(last.parts, p)})
		}
		last.parts = append(last.parts, p)
		last.x, last.end = min(last.x, p.x), max(last.end, p.end)
	}
	n := utf8.RuneCountInString(p.text)
	if n > l.chars {
		l.size = p.size
	}
	l.bold, l.mono = l.bold && p.font.bold, l.mono && p.font.mono
	l.chars += n
	return true
}

func sameLink(parts []piece, p piece) string {
	if len(parts) > 0 && parts[len(parts)-1].link == p.link {
		return p.link
	}
	return ""
}

// rows joins lines that follow one another at one height: the cells of a table that were written one by one.
func rows(all []line) []line {
	var out []line
	for _, l := range all {
		if len(out) > 0 {
			last := &out[len(out)-1]
			end := last.cells[len(last.cells)-1].end
			if math.Abs(last.y-l.y) < 0.4*min(last.size, l.size) && l.cells[0].x > end {
				last.cells = append(last.cells, l.cells...)
				last.bold, last.mono = last.bold && l.bold, last.mono && l.mono
				last.chars += l.chars
				continue
			}
		}
		out = append(out, l)
	}
	return out
}

// bodySize is the size that most characters have.
func bodySize(all []line) float64 {
	count := map[float64]int{}
	best, most := 0.0, 0
	for i := range all {
		s := rounded(all[i].size)
		count[s] += all[i].chars
		if count[s] > most || count[s] == most && s < best {
			best, most = s, count[s]
		}
	}
	return best
}

func rounded(size float64) float64 { return math.Round(size*2) / 2 }

// headingSizes are those of lines that are larger than the body, the largest first.
func headingSizes(all []line, body float64) []float64 {
	var sizes []float64
	for i := range all {
		s := rounded(all[i].size)
		if s > body*1.1 && isTitle(all[i].text()) && !slices.Contains(sizes, s) {
			sizes = append(sizes, s)
		}
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	return sizes[:min(len(sizes), 5)]
}

// isTitle tells a line that may be a heading: short, with letters, and no end of a sentence.
func isTitle(t string) bool {
	n := utf8.RuneCountInString(t)
	return n > 1 && n < 160 && strings.ContainsFunc(t, unicode.IsLetter)
}

// tableEnd returns where a table that begins at i ends; i if none does. Its rows have two cells or more, and their
// columns stand one below the other.
func tableEnd(all []line, i int) int {
	j := i
	for j < len(all) && all[j].item == "" && len(all[j].cells) > 1 && len(all[j].cells) <= 40 {
		if j > i {
			down := all[j-1].y - all[j].y
			if down <= 0 || down > 5*all[j].size || !aligned(&all[j-1], &all[j]) {
				break
			}
		}
		j++
	}
	if j-i < 2 {
		return i
	}
	return j
}

// aligned reports whether most cells of the shorter line stand below or above one of the other.
func aligned(a, b *line) bool {
	if len(a.cells) > len(b.cells) {
		a, b = b, a
	}
	n := 0
	for _, c := range a.cells {
		if slices.ContainsFunc(b.cells, func(d span) bool { return c.x < d.end && d.x < c.end }) {
			n++
		}
	}
	return 2*n >= len(a.cells)
}

// columns groups the cells of a table by where they stand. It returns where each column begins and ends.
func columns(rows []line) []span {
	var all []span
	for _, r := range rows {
		for _, c := range r.cells {
			all = append(all, span{x: c.x, end: c.end})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return int(math.Copysign(1, a.x-b.x)) })
	var cols []span
	for _, c := range all {
		if len(cols) > 0 && c.x < cols[len(cols)-1].end {
			cols[len(cols)-1].end = max(cols[len(cols)-1].end, c.end)
			continue
		}
		cols = append(cols, c)
	}
	widest := rows[0].cells
	for _, r := range rows {
		if len(r.cells) > len(widest) {
			widest = r.cells
		}
	}
	if len(cols) < len(widest) { // cells reach over one another
		return widest
	}
	return cols
}

// columnOf is the column that a cell is in.
func columnOf(cols []span, c *span) int {
	best, most := 0, math.Inf(-1)
	for i := range cols {
		if over := min(cols[i].end, c.end) - max(cols[i].x, c.x); over > most {
			best, most = i, over
		}
	}
	return best
}
