package convert

import (
	"strings"
	"testing"
)

// xlsx makes a workbook of sheets, each given by its rows; the first has what related names.
func xlsx(t testing.TB, related []string, sheets ...string) string {
	t.Helper()
	parts := []string{"_rels/.rels", relations("r1", "officeDocument", "xl/workbook.xml"),
		"xl/sharedStrings.xml",
		`<sst><si><t>Report</t></si><si><r><t>Na</t></r><r><t>me</t></r><rPh><t>x</t></rPh></si></sst>`,
		"xl/styles.xml",
		`<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd hh:mm"/></numFmts><cellXfs>` +
			`<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="46"/><xf numFmtId="9"/></cellXfs></styleSheet>`,
		"xl/comments1.xml",
		`<comments><authors><author>Ann</author></authors><commentList><comment ref="A1" authorId="0">` +
			`<text><r><t>Check this</t></r></text></comment></commentList></comments>`,
		"xl/drawings/d.xml", `<xdr:wsDr><xdr:graphicFrame><c:chart r:id="rC"/></xdr:graphicFrame></xdr:wsDr>`,
		"xl/drawings/_rels/d.xml.rels", relations("rC", "chart", "../charts/c.xml"), "xl/charts/c.xml", chart,
		"xl/worksheets/_rels/sheet1.xml.rels", relations(related...)}
	list, rels := "", []string{"rT", "sharedStrings", "sharedStrings.xml", "rY", "styles", "styles.xml"}
	for i, s := range sheets {
		n := string(rune('1' + i))
		list += `<sheet name="Sheet ` + n + ` &amp; more" r:id="r` + n + `"/>`
		rels = append(rels, "r"+n, "worksheet", "worksheets/sheet"+n+".xml")
		parts = append(parts, "xl/worksheets/sheet"+n+".xml", `<worksheet><sheetData>`+s+`</sheetData>`+
			`<hyperlinks><hyperlink ref="A1" r:id="rL"/></hyperlinks></worksheet>`)
	}
	parts = append(parts, "xl/_rels/workbook.xml.rels", relations(rels...),
		"xl/workbook.xml", `<workbook><sheets>`+list+`</sheets></workbook>`)
	return string(zipped(t, parts...))
}

func xlsxFormat(t testing.TB) format {
	row := func(cells ...string) string { return "<row>" + strings.Join(cells, "") + "</row>" }
	text := func(s string) string { return `<c t="inlineStr"><is><t>` + s + `</t></is></c>` }
	value := func(style, v string) string { return `<c s="` + style + `"><v>` + v + `</v></c>` }
	of := func(related []string, rows ...string) string { return xlsx(t, related, strings.Join(rows, "")) }
	const (
		one   = "## Sheet 1 & more\n\n"
		table = "| a | b |\n| --- | --- |\n"
	)
	head := row(text("a"), text("b"))
	return format{
		names: "xlsx",
		kept: proofs("a.xlsx",
			"a table for each sheet", xlsx(t, nil, head, head), one+table+"\n## Sheet 2 & more\n\n"+table,
			"lines above a table", of(nil, `<row r="1"><c r="B1" t="s"><v>0</v></c></row>`,
				`<row r="3"><c r="B3" t="s"><v>1</v></c><c r="C3" t="inlineStr"><is><t>b</t></is></c></row>`),
			one+"Report\n\n| Name | b |\n| --- | --- |\n",
			"a table for each sheet", of(nil, `<row r="1"><c r="B1"><v>1</v></c><c r="AAA1"><v>3</v></c>`+
				`<c r="D1"><v>2</v></c></row>`,
				`<row r="2"><c r="D2"><v>5</v></c></row>`), one+"| 1 | 2 | 3 |\n| --- | --- | --- |\n|  | 5 |  |\n",
			"values with all digits", of(nil, head, row(value("0", "0.1234567890123"), `<c t="b"><v>1</v></c>`)),
			one+table+"| 0.1234567890123 | TRUE |\n",
			"dates and times", of(nil, head, row(value("1", "45306"), value("2", "45306.5")),
				row(value("3", "1.25"))),
			one+table+"| 2024-01-15 | 2024-01-15 12:00:00 |\n| 30:00:00 |  |\n",
			"formats of numbers", of(nil, head, row(value("4", "0.1"), value("0", "1"))),
			one+table+"| 10% | 1 |\n",
			"formulas that were not calculated", of(nil, head, row(`<c><f>SUM(B4:B5)</f></c>`, value("0", "1"))),
			one+table+"| =SUM(B4:B5) | 1 |\n",
			"links", of([]string{"rL", "hyperlink", "http://a.example/"}, `<row r="1">`+text("a")+text("b")+`</row>`),
			one+"| [a](http://a.example/) | b |\n| --- | --- |\n",
			"comments", of([]string{"rK", "comments", "../comments1.xml"}, head),
			one+table+"\n- Comment on A1: Ann: Check this\n",
			"charts as tables", of([]string{"rD", "drawing", "../drawings/d.xml"}, head),
			one+table+"\n"+chartTable+"\n",
		),
		lost: proofs("a.xlsx",
			"formulas that were calculated", of(nil, head, row(`<c><f>1+1</f><v>2</v></c>`, value("0", "1"))),
			one+table+"| 2 | 1 |\n",
		),
	}
}
