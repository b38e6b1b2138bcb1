package ooxml

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/markdown/markup"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// book is a workbook that is being converted.
type book struct {
	*file
	ctx     context.Context
	strings []string
	dates   []dateFormat // by the index of a cell's format
	since04 bool         // days count from 1904
}

// Xlsx converts a workbook of Excel: a table for each sheet, then its comments, charts and pictures.
func Xlsx(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	f, err := open(d, "xl/workbook.xml")
	if err != nil {
		return doc.Markdown{}, err
	}
	root, err := f.tree(f.main)
	if err != nil {
		return doc.Markdown{}, err
	}
	rels, err := f.relations(f.main)
	if err != nil {
		return doc.Markdown{}, err
	}
	b := &book{file: f, ctx: ctx, since04: flag(root.Child("workbookPr"), "date1904")}
	if err := b.sharedStrings(f.related(f.main, "sharedStrings")); err != nil {
		return doc.Markdown{}, err
	}
	styles, err := f.tree(f.related(f.main, "styles"))
	if err != nil {
		return doc.Markdown{}, err
	}
	b.dates = dateFormats(styles)
	for s := range root.Child("sheets").Children {
		r := rels[s.Attr("r:id")]
		if r.kind != "worksheet" && r.kind != "chartsheet" {
			continue
		}
		f.w.Heading(2)
		f.w.Text(s.Attr("name"))
		f.w.End()
		if err := b.sheet(r.target); err != nil {
			return doc.Markdown{}, err
		}
	}
	return f.markdown(), nil
}

func (b *book) sharedStrings(part string) error {
	text, err := b.Text(part)
	if err != nil || text == "" {
		return err
	}
	s := markup.NewXML(text)
	for {
		switch s.Next() {
		case markup.End:
			return broken(part, s.Err)
		case markup.Open:
			if s.Name == "si" {
				b.strings = append(b.strings, stringItem(s, "si"))
			}
		}
	}
}

// stringItem reads the text of an element, without its reading aids.
func stringItem(s *markup.Scanner, until string) string {
	if s.Empty {
		return ""
	}
	text, inText, aids := "", false, 0
	for {
		switch s.Next() {
		case markup.Open:
			inText = s.Name == "t" && !s.Empty
			if s.Name == "rPh" && !s.Empty {
				aids++
			}
		case markup.Text:
			if inText && aids == 0 {
				text += s.Decoded()
			}
		case markup.Close:
			inText = false
			switch s.Name {
			case "rPh":
				aids--
			case until:
				return text
			}
		case markup.End:
			return text
		}
	}
}

// sheet writes a sheet.
func (b *book) sheet(part string) error {
	text, err := b.Text(part)
	if err != nil {
		return err
	}
	links, err := b.links(part, text)
	if err != nil {
		return err
	}
	rows, err := b.rows(part, text)
	if err != nil {
		return err
	}
	b.table(rows, links)
	b.comments(part)
	return b.drawings(part)
}

// links are the targets of the cells of a sheet. They come after the cells.
func (b *book) links(part, text string) (map[[2]int]string, error) {
	at := strings.LastIndex(text, "<hyperlinks")
	if at < 0 {
		return nil, nil
	}
	rels, err := b.relations(part)
	if err != nil {
		return nil, err
	}
	links := map[[2]int]string{}
	s := markup.NewXML(text[at:])
	for {
		switch s.Next() {
		case markup.Open:
			if s.Name != "hyperlink" {
				continue
			}
			ref, _, _ := strings.Cut(s.Attr("ref"), ":")
			col, row := position(ref)
			target := rels[s.Attr("r:id")].target
			if l := s.Attr("location"); l != "" {
				target += "#" + l
			}
			links[[2]int{col, row}] = target
		case markup.Close:
			if s.Name == "hyperlinks" {
				return links, nil
			}
		case markup.End:
			return links, nil
		}
	}
}

// value is a cell with something in it.
type value struct {
	col  int
	text string
}

type sheetRow struct {
	number int
	cells  []value
}

// rows reads the cells of a sheet that are not empty.
func (b *book) rows(part, text string) ([]sheetRow, error) {
	s := markup.NewXML(text)
	var rows []sheetRow
	var cur sheetRow
	col, n := 0, 0
	flush := func() {
		if len(cur.cells) > 0 {
			rows = append(rows, cur)
		}
		cur = sheetRow{number: cur.number + 1}
		col = 0
	}
	for {
		switch s.Next() {
		case markup.End:
			flush()
			return rows, broken(part, s.Err)
		case markup.Open:
			switch s.Name {
			case "row":
				flush()
				if r, err := strconv.Atoi(s.Attr("r")); err == nil {
					cur.number = r
				}
				if n++; n%1000 == 0 && b.ctx.Err() != nil {
					return nil, b.ctx.Err()
				}
			case "c":
				col++
				if c, _ := position(s.Attr("r")); c > 0 {
					col = c
				}
				if v := b.cellValue(s); v != "" && col <= 16384 {
					cur.cells = append(cur.cells, value{col, v})
				}
			}
		}
	}
}

// cellValue reads a cell as Excel shows it, but for numbers, which keep all of their digits.
func (b *book) cellValue(s *markup.Scanner) string {
	if s.Empty {
		return ""
	}
	kind, format := s.Attr("t"), s.Attr("s")
	if kind == "inlineStr" {
		return stringItem(s, "c")
	}
	raw, formula, in := "", "", ""
	for {
		switch s.Next() {
		case markup.Open:
			in = s.Name
			if s.Empty {
				in = ""
			}
		case markup.Text:
			switch in {
			case "v":
				raw += s.Decoded()
			case "f":
				formula += s.Decoded()
			}
		case markup.Close:
			in = ""
			if s.Name == "c" && raw == "" && formula != "" {
				return "=" + formula // the program that wrote it did not calculate it
			}
			if s.Name == "c" {
				return b.shown(raw, kind, format)
			}
		case markup.End:
			return ""
		}
	}
}

func (b *book) shown(raw, kind, format string) string {
	switch kind {
	case "s":
		if i, err := strconv.Atoi(raw); err == nil && i >= 0 && i < len(b.strings) {
			return b.strings[i]
		}
		return ""
	case "b":
		return map[string]string{"1": "TRUE", "0": "FALSE"}[raw]
	case "", "n":
		if i, err := strconv.Atoi(format); err == nil && i >= 0 && i < len(b.dates) && b.dates[i] != noDate {
			if d := b.dates[i].show(raw, b.since04); d != "" {
				return d
			}
		}
		return number(raw)
	}
	return raw
}

// position makes column and row, from 1, of a name such as B12.
func position(ref string) (col, row int) {
	i := 0
	for ; i < len(ref) && i < 4 && ref[i]|0x20 >= 'a' && ref[i]|0x20 <= 'z'; i++ {
		col = col*26 + int(ref[i]|0x20-'a') + 1
	}
	row, _ = strconv.Atoi(ref[i:])
	return col, row
}

// table writes the rows. A line of a single cell above an empty one is a paragraph before the table.
func (b *book) table(rows []sheetRow, links map[[2]int]string) {
	for len(rows) > 0 && len(rows[0].cells) == 1 && (len(rows) == 1 || rows[1].number > rows[0].number+1) {
		b.text(rows[0], rows[0].cells[0], links)
		b.w.End()
		rows = rows[1:]
	}
	if len(rows) == 0 {
		return
	}
	first, last := rows[0].cells[0].col, 0
	for _, r := range rows {
		first = min(first, r.cells[0].col)
		last = max(last, r.cells[len(r.cells)-1].col)
	}
	b.w.Table(true)
	for _, r := range rows {
		b.w.Row()
		at := first
		for _, v := range r.cells {
			if v.col > at {
				b.w.Cell(v.col-at, 1)
			}
			b.w.Cell(1, 1)
			b.text(r, v, links)
			b.w.EndCell()
			at = v.col + 1
		}
		if at <= last {
			b.w.Cell(last-at+1, 1)
		}
	}
	b.w.EndTable()
}

func (b *book) text(r sheetRow, v value, links map[[2]int]string) {
	link, ok := links[[2]int{v.col, r.number}]
	if ok {
		b.w.Link(link, "")
		defer b.w.EndLink()
	}
	text := v.text
	for {
		l, rest, more := strings.Cut(text, "\n")
		b.w.Text(l)
		if !more {
			return
		}
		b.w.Break()
		text = rest
	}
}

// comments writes those of a sheet as a list.
func (b *book) comments(part string) {
	threaded := b.related(part, "threadedComment")
	kind := "comments"
	if threaded != "" {
		kind = "threadedComment"
	}
	root, err := b.tree(b.related(part, kind))
	if err != nil || root == nil {
		return
	}
	var names []string
	persons := map[string]string{}
	for a := range root.Child("authors").Children {
		names = append(names, a.Content())
	}
	people, _ := b.tree(b.related(b.main, "person"))
	for p := range people.Children {
		persons[p.Attr("id")] = p.Attr("displayName")
	}
	b.w.List(false, 1)
	for c := range root.All {
		text, author := "", ""
		switch c.Name {
		case "comment":
			for t := range c.Child("text").All {
				if t.Name == "t" {
					text += t.Content()
				}
			}
			if i, err := strconv.Atoi(c.Attr("authorId")); err == nil {
				author = at(names, max(i, 0))
			}
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
	root, err := b.tree(drawing)
	if err != nil || root == nil {
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
