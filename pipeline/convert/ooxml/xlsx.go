package ooxml

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// book is a workbook that is being converted.
type book struct {
	*file
	strings []string
	formats []cellFormat // by the index of a cell's format
	header  string       // of the pages of the sheets, and their footers
	since04 bool         // days count from 1904
}

// Xlsx converts a workbook of Excel: a table for each sheet, then its comments, charts and pictures.
func Xlsx(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	return convert(ctx, d, "xl/workbook.xml", func(f *file) error {
		root, rels, err := f.mainTree()
		if err != nil {
			return err
		}
		b := &book{file: f, since04: flag(root.Child("workbookPr"), "date1904")}
		err = f.elements(f.related(f.main, "sharedStrings"), func(name string) bool { return name != "si" },
			func(n *markup.Node) { b.strings = append(b.strings, textOf(n)) })
		if err != nil {
			return err
		}
		styles, err := f.Tree(f.related(f.main, "styles"))
		if err != nil {
			return err
		}
		b.formats = cellFormats(styles)
		f.empty = true
		var lost error
		for s := range root.Child("sheets").Children {
			r, ok := rels[s.Attr("r:id")]
			if !ok {
				lost = doc.Fail(doc.KindCorrupt, "its sheet %q is not to be found: no relation of %s leads there",
					s.Attr("name"), f.main)
				continue
			}
			hidden := s.Attr("state") == "hidden" || s.Attr("state") == "veryHidden"
			if hidden && !d.Hidden {
				continue
			}
			f.w.Title(2, s.Attr("name")+marked(hidden))
			at := f.w.Len()
			if err := b.sheet(r.target); err != nil {
				return err
			}
			f.empty = f.empty && f.w.Len() == at
		}
		if header := headerCodes.ReplaceAllString(b.header, " "); f.empty {
			f.w.Text(strings.TrimSpace(header))
			f.empty = strings.TrimSpace(header) == ""
		}
		if f.w.Len() == 0 { // a sheet of macros may not be there, but some sheet is
			return lost
		}
		return nil
	})
}

// marked is what stands beside that which a reader of the original does not see.
func marked(hidden bool) string {
	if hidden {
		return " (hidden)"
	}
	return ""
}

// sheet writes a sheet.
func (b *book) sheet(part string) error {
	rows, links, err := b.rows(part)
	if err != nil {
		return err
	}
	b.table(rows, links)
	b.comments(part)
	return b.drawings(part)
}

// headerCodes are fields and looks of the headers and footers of pages.
var headerCodes = regexp.MustCompile(`&("[^"]*"|K[0-9A-F]{6}|K[0-9]{2}[+-][0-9]{3}|[0-9]+|[A-Z])`)

// value is a cell with something in it.
type value struct {
	col  int
	text string
}

const maxColumns = 16384 // of a sheet

type sheetRow struct {
	number int
	cells  []value
}

// rows reads the cells of a sheet that are not empty, and the targets of those that are links.
func (b *book) rows(part string) (rows []sheetRow, links map[[2]int]string, err error) {
	rels, err := b.relations(part)
	if err != nil {
		return nil, nil, err
	}
	links = map[[2]int]string{}
	number := 0
	veiled := map[int]bool{} // columns
	enter := func(name string) bool {
		return name != "row" && name != "hyperlink" && name != "col" && name != "oddHeader" && name != "oddFooter"
	}
	err = b.elements(part, enter, func(n *markup.Node) {
		if n.Name == "hyperlink" {
			ref, _, _ := strings.Cut(n.Attr("ref"), ":")
			col, row := position(ref)
			target := rels[n.Attr("r:id")].target
			if l := n.Attr("location"); l != "" {
				target += "#" + l
			}
			links[[2]int{col, row}] = target
			return
		}
		if n.Name == "col" {
			for c := whole(n.Attr("min"), 1); flag(n, "hidden") && c <= min(whole(n.Attr("max"), 0), maxColumns); c++ {
				veiled[c] = true
			}
			return
		}
		if n.Name != "row" {
			if text := n.Content(); !strings.Contains(text, "&P") { // not "Page 1"
				b.header += " " + text
			}
			return
		}
		number = whole(n.Attr("r"), number+1)
		row, col := sheetRow{number: number}, 0
		for c := range n.Children {
			col++
			if at, _ := position(c.Attr("r")); at > 0 {
				col = at
			}
			hidden := flag(n, "hidden") || veiled[col]
			if v := b.cellValue(c); v != "" && col <= maxColumns && (!hidden || b.d.Hidden) {
				row.cells = append(row.cells, value{col, v + marked(hidden)})
				if url, ok := strings.CutPrefix(c.Child("f").Content(), `HYPERLINK("`); ok {
					links[[2]int{col, number}], _, _ = strings.Cut(url, `"`)
				}
			}
		}
		if len(row.cells) > 0 {
			slices.SortStableFunc(row.cells, func(a, b value) int { return a.col - b.col })
			rows = append(rows, row)
		}
	})
	return rows, links, err
}

// cellValue reads a cell as Excel shows it. Numbers without a format keep all of their digits.
func (b *book) cellValue(n *markup.Node) string {
	kind, raw, formula := n.Attr("t"), n.Child("v").Content(), n.Child("f").Content()
	if raw == "" && formula != "" {
		return "=" + formula // the program that wrote it did not calculate it
	}
	if kind == "inlineStr" {
		raw = textOf(n)
	}
	return b.shown(raw, kind, at(b.formats, whole(n.Attr("s"), -1)))
}

// shown is what a format makes of a value. What it hides is there with all that is hidden.
func (b *book) shown(raw, kind string, f cellFormat) (text string) {
	plain := raw
	switch kind {
	case "s":
		plain = at(b.strings, whole(raw, -1))
		text = f.number.text(plain)
	case "b":
		return map[string]string{"1": "TRUE", "0": "FALSE"}[raw]
	case "", "n":
		if f.date != noDate {
			if d := f.date.show(raw, b.since04); d != "" {
				return d
			}
		}
		plain = number(raw)
		if shown, ok := f.number.show(raw); ok && !b.d.RawNumbers {
			text = shown
		} else {
			text = plain
		}
	case "str", "inlineStr":
		text = f.number.text(plain)
	default:
		return raw
	}
	if text == "" && plain != "" && b.d.Hidden {
		return plain + marked(true)
	}
	return text
}

// position makes column and row, from 1, of a name such as B12.
func position(ref string) (col, row int) {
	i := 0
	for ; i < len(ref) && i < 4 && ref[i]|0x20 >= 'a' && ref[i]|0x20 <= 'z'; i++ {
		col = col*26 + int(ref[i]|0x20-'a') + 1
	}
	return col, whole(ref[i:], 0)
}

// table writes the rows, without the columns that are empty. A line of a single cell above an empty one is a paragraph
// before the table.
func (b *book) table(rows []sheetRow, links map[[2]int]string) {
	for len(rows) > 0 && len(rows[0].cells) == 1 && (len(rows) == 1 || rows[1].number > rows[0].number+1) {
		b.text(rows[0], rows[0].cells[0], links)
		b.w.End()
		rows = rows[1:]
	}
	if len(rows) == 0 {
		return
	}
	used := map[int]bool{}
	for _, r := range rows {
		for _, v := range r.cells {
			used[v.col] = true
		}
	}
	columns := slices.Sorted(maps.Keys(used))
	b.w.Table(true)
	for _, r := range rows {
		b.w.Row()
		for _, col := range columns {
			b.w.Cell(1, 1)
			for len(r.cells) > 0 && r.cells[0].col == col {
				b.text(r, r.cells[0], links)
				r.cells = r.cells[1:]
			}
			b.w.EndCell()
		}
	}
	b.w.EndTable()
}

func (b *book) text(r sheetRow, v value, links map[[2]int]string) {
	b.w.Link(links[[2]int{v.col, r.number}], "")
	for i, l := range strings.Split(v.text, "\n") {
		if i > 0 {
			b.w.Break()
		}
		b.w.Text(l)
	}
	b.w.EndLink()
}

// comments writes those of a sheet as a list.
func (b *book) comments(part string) {
	root, _ := b.Tree(cmp.Or(b.related(part, "threadedComment"), b.related(part, "comments")))
	var names []string
	persons := map[string]string{}
	for a := range root.Child("authors").Children {
		names = append(names, a.Content())
	}
	people, _ := b.Tree(b.related(b.main, "person"))
	for p := range people.Children {
		persons[p.Attr("id")] = p.Attr("displayName")
	}
	b.w.List(false, 1)
	for c := range root.All {
		text, author := "", ""
		switch c.Name {
		case "comment":
			text, author = textOf(c.Child("text")), at(names, whole(c.Attr("authorId"), -1))
		case "threadedComment":
			text, author = c.Child("text").Content(), persons[c.Attr("personId")]
		default:
			continue
		}
		if author != "" && !strings.HasPrefix(strings.TrimSpace(text), author+":") {
			text = author + ": " + text
		}
		b.w.Item()
		b.w.Text("Comment on " + c.Attr("ref") + ": " + strings.TrimSpace(text))
	}
	b.w.EndList()
}

// drawings writes the charts, pictures and text boxes of a sheet.
func (b *book) drawings(part string) error {
	drawing := b.related(part, "drawing")
	root, err := b.Tree(drawing)
	if err != nil {
		return err
	}
	if _, err := b.relations(drawing); err != nil {
		return err
	}
	alt := ""
	for c := range root.All {
		switch c.Name {
		case "cNvPr":
			alt = cmp.Or(c.Attr("descr"), c.Attr("title"))
		case "chart":
			b.chart(drawing, c.Attr("r:id"))
		case "relIds":
			b.diagram(drawing, c.Attr("r:dm"))
		case "blip":
			b.picture(drawing, c.Attr("r:embed"), alt)
			b.w.End()
		case "txBody":
			b.w.Text(drawnText(c))
			b.w.End()
		}
	}
	return nil
}
