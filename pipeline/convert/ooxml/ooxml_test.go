package ooxml_test

import (
	"archive/zip"
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/ooxml"
)

const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"

// pack makes a document of parts: pairs of name and content.
func pack(t *testing.T, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(parts[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rels are relations: triples of id, kind and target. A target with a scheme is external.
func rels(list ...string) string {
	var b strings.Builder
	b.WriteString("<Relationships>")
	for i := 0; i < len(list); i += 3 {
		mode := ""
		if strings.Contains(list[i+2], "://") {
			mode = ` TargetMode="External"`
		}
		b.WriteString(`<Relationship Id="` + list[i] + `" Type="` + office + list[i+1] + `" Target="` + list[i+2] +
			`"` + mode + "/>")
	}
	return b.String() + "</Relationships>"
}

const styles = `<w:styles><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="H1"/></w:style>
<w:style w:type="paragraph" w:styleId="LB"><w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="LB2"><w:name w:val="List Bullet 2"/><w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Q"><w:name w:val="Intense Quote"/></w:style>
<w:style w:type="character" w:styleId="Strong"><w:name w:val="Strong"/><w:rPr><w:b/></w:rPr></w:style></w:styles>`

const numbering = `<w:numbering><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>`

const chart = `<c:chartSpace><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser>
<c:tx><c:strRef><c:strCache><c:pt idx="0"><c:v>2024</c:v></c:pt></c:strCache></c:strRef></c:tx>
<c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>North</c:v></c:pt><c:pt idx="1"><c:v>South</c:v></c:pt></c:strCache></c:strRef></c:cat>
<c:val><c:numRef><c:numCache><c:pt idx="0"><c:v>10</c:v></c:pt><c:pt idx="1"><c:v>0.30000000000000004</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>`

const chartTable = "**Sales**\n\n| Category | 2024 |\n| --- | --- |\n| North | 10 |\n| South | 0.3 |"

func r(text string) string { return `<w:r><w:t xml:space="preserve">` + text + `</w:t></w:r>` }

func p(inner string) string { return "<w:p>" + inner + "</w:p>" }

func styled(style, inner string) string {
	return p(`<w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>` + inner)
}

func item(level, text string) string {
	return p(`<w:pPr><w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="1"/></w:numPr></w:pPr>` + r(text))
}

func TestDocx(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"headings by style, also inherited", styled("H1", r("One")) + styled("Mine", r("Two")) + p(r("text")),
			"# One\n\n# Two\n\ntext"},
		{"runs",
			p(
				`<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">b </w:t></w:r><w:r><w:rPr><w:i/><w:b w:val="0"/></w:rPr><w:t>c</w:t></w:r><w:r><w:rPr><w:rStyle w:val="Strong"/></w:rPr><w:t>d</w:t></w:r>`),
			"**ab** *c***d**"},
		{"lists", item("0", "a") + item("1", "b") + item("0", "c") + p(r("end")), "3. a\n   - b\n4. c\n\nend"},
		{"lists by the names of their styles", styled("LB", r("a")) + styled("LB2", r("b")) + styled("LB", r("c")),
			"- a\n  - b\n- c"},
		{"text of a picture at its frame",
			p(
				`<w:r><w:drawing><wp:inline><wp:docPr id="1" name="P" descr="A cat"/><pic:cNvPr id="0" name="cat.png"/><a:blip r:embed="rI"/></wp:inline></w:drawing></w:r>`),
			"![A cat](cat.png)"},
		{"quote", styled("Q", r("said")) + p(r("x")), "> said\n\nx"},
		{"link, by relation and by field", p(`<w:hyperlink r:id="rL">` + r("site") + `</w:hyperlink>` + r(" and ") +
			`<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "http://b.example/" </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>` +
			r("field") + `<w:r><w:fldChar w:fldCharType="end"/></w:r>`),
			"[site](http://a.example/) and [field](http://b.example/)"},
		{"picture",
			p(
				`<w:r><w:drawing><wp:inline><wp:docPr id="1" name="P" descr="A cat"/><a:blip r:embed="rI"/></wp:inline></w:drawing></w:r>`),
			"![A cat](cat.png)"},
		{"table with merged cells", `<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>` + p(r("wide")) +
			`</w:tc><w:tc>` + p(r("c")) + `</w:tc></w:tr>
<w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>` + p(r("tall")) + `</w:tc><w:tc>` + p(r("1")) +
			`</w:tc><w:tc>` + p(r("2")) + p(r("3")) + `</w:tc></w:tr>
<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>` + p("") + `</w:tc><w:tc>` + p(r("4")) + `</w:tc><w:tc>` + p(r("5|6")) +
			`</w:tc></w:tr></w:tbl>`,
			"| wide |  | c |\n| --- | --- | --- |\n| tall | 1 | 2<br>3 |\n|  | 4 | 5\\|6 |"},
		{"footnote and comment", p(r("a") + `<w:r><w:footnoteReference w:id="2"/></w:r>` + r("b") +
			`<w:r><w:commentReference w:id="0"/></w:r>`),
			"a[^2]b[^c0]\n\n[^2]: The note.\n\n[^c0]: Ann: Really?"},
		{"formula",
			p(
				`<m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:sSup><m:e><m:r><m:t>b</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:den></m:f></m:oMath>`),
			`$\frac{a}{b^{2}}$`},
		{"changes", p(r("a") + `<w:ins>` + r("b") + `</w:ins><w:del><w:r><w:delText>c</w:delText></w:r></w:del>`),
			"ab"},
		{"text box and chart", p(r("a")+`<w:r><w:drawing><wps:txbx><w:txbxContent>`+p(r("box"))+
			`</w:txbxContent></wps:txbx></w:drawing></w:r>`) +
			p(`<w:r><w:drawing><c:chart r:id="rC"/></w:drawing></w:r>`), "a\n\nbox\n\n" + chartTable},
	} {
		data := pack(t, "_rels/.rels", rels("r1", "officeDocument", "word/document.xml"),
			"word/_rels/document.xml.rels", rels("rS", "styles", "styles.xml", "rN", "numbering", "numbering.xml", "rF",
				"footnotes", "footnotes.xml",
				"rK", "comments", "comments.xml", "rL", "hyperlink", "http://a.example/", "rI", "image",
				"media/cat.png", "rC", "chart", "charts/c.xml"),
			"word/styles.xml", styles, "word/numbering.xml", numbering, "word/charts/c.xml", chart,
			"word/footnotes.xml", `<w:footnotes><w:footnote w:id="2">`+p(r("The note."))+`</w:footnote></w:footnotes>`,
			"word/comments.xml", `<w:comments><w:comment w:id="0" w:author="Ann">`+p(r("Really?"))+
				`</w:comment></w:comments>`,
			"word/document.xml", `<?xml version="1.0"?><w:document><w:body>`+c.body+`<w:sectPr/></w:body></w:document>`)
		got, err := ooxml.Docx(context.Background(), doc.Document{Data: data})
		if err != nil || strings.TrimSpace(got.Text) != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.name, err, got.Text, c.want)
		}
	}
}

func TestPptx(t *testing.T) {
	shape := func(ph, off, body string) string {
		return `<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr>` + ph + `</p:nvPr></p:nvSpPr><p:spPr><a:xfrm>` +
			off + `</a:xfrm></p:spPr><p:txBody>` + body + `</p:txBody></p:sp>`
	}
	para := func(pr, text string) string { return `<a:p>` + pr + `<a:r><a:t>` + text + `</a:t></a:r></a:p>` }
	slide := `<p:sld><p:cSld><p:spTree>` +
		shape("", `<a:off x="5000000" y="3000000"/>`, para("", "right")) +
		shape("", `<a:off x="100000" y="3000100"/>`, para("", "left")) +
		shape(`<p:ph idx="1"/>`, `<a:off x="0" y="1000000"/>`,
			para("", "first")+para(`<a:pPr lvl="1"/>`, "inner")+
				para(`<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>`, "one")) +
		shape(`<p:ph type="title"/>`, "", para("", "The Title")) +
		`<p:pic><p:nvPicPr><p:cNvPr id="2" name="P" descr="A dog"/><p:nvPr/></p:nvPicPr><p:blipFill><a:blip r:embed="rI"/></p:blipFill><p:spPr><a:xfrm><a:off x="0" y="4000000"/></a:xfrm></p:spPr></p:pic>` +
		`<p:graphicFrame><p:xfrm><a:off x="0" y="5000000"/></p:xfrm><a:graphic><a:graphicData><a:tbl><a:tr><a:tc gridSpan="2"><a:txBody>` +
		para("", "head") + `</a:txBody></a:tc><a:tc hMerge="1"><a:txBody/></a:tc></a:tr><a:tr><a:tc><a:txBody>` +
		para("", "1") + `</a:txBody></a:tc><a:tc><a:txBody>` + para("",
		"2") + `</a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>` +
		`<p:graphicFrame><p:xfrm><a:off x="0" y="6000000"/></p:xfrm><a:graphic><a:graphicData><c:chart r:id="rC"/></a:graphicData></a:graphic></p:graphicFrame>` +
		`</p:spTree></p:cSld></p:sld>`
	notes := `<p:notes><p:cSld><p:spTree>` + shape(`<p:ph type="body" idx="1"/>`, "",
		para("", "Say this.")) + `</p:spTree></p:cSld></p:notes>`
	data := pack(t, "_rels/.rels", rels("r1", "officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml",
		`<p:presentation><p:sldIdLst><p:sldId id="256" r:id="rS"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels", rels("rS", "slide", "slides/slide1.xml"),
		"ppt/slides/slide1.xml", slide,
		"ppt/slides/_rels/slide1.xml.rels", rels("rN", "notesSlide", "../notesSlides/n.xml", "rC", "chart",
			"../charts/c.xml", "rI", "image", "../media/dog.jpg"),
		"ppt/notesSlides/n.xml", notes, "ppt/charts/c.xml", chart)
	got, err := ooxml.Pptx(context.Background(), doc.Document{Data: data})
	want := "## The Title\n\n- first\n  - inner\n\n1. one\n\nleft\n\nright\n\n![A dog](dog.jpg)\n\n| head |  |\n| --- | --- |\n| 1 | 2 |\n\n" +
		chartTable + "\n\n### Notes:\n\nSay this.\n"
	if err != nil || got.Text != want {
		t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, want)
	}
}

func TestXlsx(t *testing.T) {
	sheet := `<worksheet><sheetData><row r="1"><c r="B1" t="s"><v>0</v></c></row>
<row r="3"><c r="B3" t="s"><v>1</v></c><c r="C3" t="inlineStr"><is><t>When</t></is></c><c r="D3" t="str"><f>A1</f><v>Sum</v></c></row>
<row r="4"><c r="B4"><v>0.1</v></c><c r="C4" s="1"><v>45306</v></c><c r="D4" t="b"><v>1</v></c></row>
<row r="5"><c r="B5"><v>1234567.0000000002</v></c><c r="C5" s="2"><v>45306.5</v></c></row>
<row r="6"><c r="B6"><f>SUM(B4:B5)</f></c><c r="C6" s="3"><v>1.25</v></c></row></sheetData>
<mergeCells><mergeCell ref="C5:D5"/></mergeCells><hyperlinks><hyperlink ref="B3" r:id="rL"/></hyperlinks></worksheet>`
	data := pack(t, "_rels/.rels", rels("r1", "officeDocument", "xl/workbook.xml"),
		"xl/workbook.xml",
		`<workbook><sheets><sheet name="Data &amp; more" sheetId="1" r:id="rS"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", rels("rS", "worksheet", "worksheets/sheet1.xml", "rT", "sharedStrings",
			"sharedStrings.xml", "rY", "styles", "styles.xml"),
		"xl/sharedStrings.xml",
		`<sst><si><t>Report</t></si><si><r><t>Na</t></r><r><t>me</t></r><rPh><t>x</t></rPh></si></sst>`,
		"xl/styles.xml",
		`<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd hh:mm"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="46"/></cellXfs></styleSheet>`,
		"xl/worksheets/sheet1.xml", sheet,
		"xl/worksheets/_rels/sheet1.xml.rels", rels("rL", "hyperlink", "http://a.example/", "rK", "comments",
			"../comments1.xml"),
		"xl/comments1.xml",
		`<comments><authors><author>Ann</author></authors><commentList><comment ref="B4" authorId="0"><text><r><t>Check this</t></r></text></comment></commentList></comments>`)
	got, err := ooxml.Xlsx(context.Background(), doc.Document{Data: data})
	want := "## Data & more\n\nReport\n\n| [Name](http://a.example/) | When | Sum |\n| --- | --- | --- |\n| 0.1 | 2024-01-15 | TRUE |\n| 1234567 | 2024-01-15 12:00:00 |  |\n| =SUM(B4:B5) | 30:00:00 |  |\n\n- Comment on B4: Ann: Check this\n"
	if err != nil || got.Text != want {
		t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, want)
	}
}
