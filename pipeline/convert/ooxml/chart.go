package ooxml

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// chart writes the data of a chart as a table: categories down, series across.
func (f *file) chart(part, id string) {
	c := f.linked(part, id).Child("chart")
	if title := drawnText(c.Child("title")); title != "" {
		f.w.Marked(markdown.Strong, title)
		f.w.End()
	}
	var names, categories []string
	var series [][]string
	for s := range c.Child("plotArea").All {
		if s.Name != "ser" {
			continue
		}
		name := strings.Join(points(s.Child("tx")), " ")
		if name == "" {
			name = s.Child("tx", "v").Content()
		}
		cat, val := points(s.Child("cat")), points(s.Child("val"))
		if x := points(s.Child("xVal")); len(x) > 0 {
			cat, val = x, points(s.Child("yVal"))
		}
		if len(cat) > len(categories) {
			categories = cat
		}
		names, series = append(names, cmp.Or(name, "Series "+strconv.Itoa(len(names)+1))), append(series, val)
	}
	rows := len(categories)
	for _, s := range series {
		rows = max(rows, len(s))
	}
	if rows == 0 {
		f.w.Text(drawnText(c.Child("plotArea")))
		f.w.End()
		return
	}
	f.w.Table(true)
	f.w.Row()
	f.cell(cmp.Or(drawnText(c.Child("plotArea", "catAx", "title")), "Category"))
	for _, n := range names {
		f.cell(n)
	}
	for i := range rows {
		f.w.Row()
		f.cell(at(categories, i))
		for _, s := range series {
			f.cell(at(s, i))
		}
	}
	f.w.EndTable()
}

func (f *file) cell(text string) {
	f.w.Cell(1, 1)
	f.w.Text(text)
	f.w.EndCell()
}

// points are the values that a chart keeps of its source.
func points(n *markup.Node) []string {
	var out []string
	for p := range n.All {
		if p.Name == "lvl" && len(out) > 0 { // the outer levels of categories
			break
		}
		if p.Name != "pt" {
			continue
		}
		i := whole(p.Attr("idx"), -1)
		if i < 0 || i > 100_000 {
			continue
		}
		for len(out) <= i {
			out = append(out, "")
		}
		out[i] = number(p.Child("v").Content())
	}
	return out
}

// number writes a number without what binary fractions add to it.
func number(v string) string {
	if len(v) < 16 && !strings.ContainsAny(v, "eE") {
		return v
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return v
	}
	if strings.Trim(v, "-0123456789") == "" {
		return v
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 15, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// drawnText is all text of a drawing's element, a space between its paragraphs.
func drawnText(n *markup.Node) string {
	var parts []string
	for p := range n.All {
		if p.Name != "p" {
			continue
		}
		if s := strings.TrimSpace(textOf(p)); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

// textOf is the text of the elements t below, without reading aids.
func textOf(n *markup.Node) string {
	var parts []string
	for c := range n.Children {
		switch c.Name {
		case "t":
			parts = append(parts, c.Content())
		case "rPh":
		default:
			parts = append(parts, textOf(c))
		}
	}
	return strings.Join(parts, "")
}

// diagram writes the texts of a SmartArt as a list.
func (f *file) diagram(part, id string) {
	f.w.List(false, 1)
	for p := range f.linked(part, id).Child("ptLst").Children {
		if text := drawnText(p.Child("t")); text != "" {
			f.w.Item()
			f.w.Text(text)
		}
	}
	f.w.EndList()
}
