package convert

import (
	"strings"
	"testing"
)

// office is how the types of relations begin.
const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"

// relations are triples of id, kind and target. A target with a scheme is external.
func relations(list ...string) string {
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

const wordStyles = `<w:styles><w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="H1"/></w:style>
<w:style w:type="paragraph" w:styleId="LB"><w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="LB2"><w:name w:val="List Bullet 2"/><w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Q"><w:name w:val="Intense Quote"/></w:style>
<w:style w:type="paragraph" w:styleId="LQ"><w:name w:val="Quotations"/></w:style>
<w:style w:type="paragraph" w:styleId="LP"><w:name w:val="Preformatted Text"/></w:style>
<w:style w:type="character" w:styleId="LS"><w:name w:val="Source Text"/></w:style>
<w:style w:type="character" w:styleId="PT"><w:name w:val="Placeholder Text"/></w:style>
<w:style w:type="character" w:styleId="Strong"><w:name w:val="Strong"/><w:rPr><w:b/></w:rPr></w:style></w:styles>`

const wordNumbering = `<w:numbering><w:abstractNum w:abstractNumId="3"><w:numStyleLink w:val="L"/></w:abstractNum>
<w:abstractNum w:abstractNumId="0"><w:styleLink w:val="L"/><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="1"><w:abstractNumId w:val="3"/></w:num></w:numbering>`

const chart = `<c:chartSpace><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart><c:ser>
<c:tx><c:strRef><c:strCache><c:pt idx="0"><c:v>2024</c:v></c:pt></c:strCache></c:strRef></c:tx>
<c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>North</c:v></c:pt><c:pt idx="1"><c:v>South</c:v></c:pt></c:strCache></c:strRef></c:cat>
<c:val><c:numRef><c:numCache><c:pt idx="0"><c:v>10</c:v></c:pt><c:pt idx="1"><c:v>0.30000000000000004</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>`

const chartTable = "**Sales**\n\n| Category | 2024 |\n| --- | --- |\n| North | 10 |\n| South | 0.3 |"

func word(body string) string { return "<w:document><w:body>" + body + "</w:body></w:document>" }

// docx makes a document of paragraphs and tables, with what those may refer to.
func docx(t testing.TB, body string) string {
	t.Helper()
	note := func(kind, id, attrs, text string) string {
		return "<w:" + kind + "s><w:" + kind + ` w:id="` + id + `"` + attrs + ">" + wordParagraph(wordRun(text)) +
			"</w:" + kind + "></w:" + kind + "s>"
	}
	return string(zipped(t, "_rels/.rels", relations("r1", "officeDocument", "word/document.xml"),
		"word/_rels/document.xml.rels", relations("rS", "styles", "styles.xml", "rN", "numbering", "numbering.xml",
			"rF", "footnotes", "footnotes.xml", "rE", "endnotes", "endnotes.xml", "rK", "comments", "comments.xml",
			"rL", "hyperlink", "http://a.example/", "rI", "image", "media/cat.png", "rC", "chart", "charts/c.xml",
			"rH", "header", "header1.xml", "rO", "footer", "footer1.xml"),
		"word/styles.xml", wordStyles, "word/numbering.xml", wordNumbering, "word/charts/c.xml", chart,
		"word/footnotes.xml", note("footnote", "2", "", "The note."),
		"word/endnotes.xml", note("endnote", "3", "", "The end."),
		"word/comments.xml", note("comment", "0", ` w:author="Ann"`, "Really?"),
		"word/header1.xml", "<w:hdr>"+wordParagraph(wordRun("Header"))+"</w:hdr>",
		"word/footer1.xml", "<w:ftr>"+wordParagraph(wordRun("Footer"))+"</w:ftr>",
		"word/document.xml", `<?xml version="1.0"?>`+word(body+`<w:sectPr><w:headerReference w:type="default" `+
			`r:id="rH"/><w:footerReference w:type="default" r:id="rO"/></w:sectPr>`)))
}

func wordRun(text string) string { return `<w:r><w:t xml:space="preserve">` + text + `</w:t></w:r>` }

func wordParagraph(inner string) string { return "<w:p>" + inner + "</w:p>" }

func wordStyled(style, text string) string {
	return wordParagraph(`<w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>` + wordRun(text))
}

func wordItem(level, text string) string {
	return wordParagraph(`<w:pPr><w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="1"/></w:numPr></w:pPr>` +
		wordRun(text))
}

// wordField is a field without a result, and wordForm one of a form.
func wordField(code string) string { return wordForm(` `+code+` `, "") }

func wordForm(code, data string) string {
	return `<w:r><w:fldChar w:fldCharType="begin"><w:ffData>` + data + `</w:ffData></w:fldChar></w:r><w:r><w:instrText>` +
		code + `</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>`
}

func docxFormat(t testing.TB) format {
	p, r := wordParagraph, wordRun
	deleted := func(inner string) string { return `<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>` + inner + `</w:p>` }
	kept := [][3]string{
		{"fields of forms", p(wordForm("FORMCHECKBOX", "<w:checkBox><w:checked/></w:checkBox>")+r("a")) +
			p(wordForm("FORMDROPDOWN", `<w:ddList><w:result w:val="1"/><w:listEntry w:val="red"/><w:listEntry w:val="green"/>`+
				`</w:ddList>`)) + p(wordForm("MACROBUTTON go Click here", "")), "[x] a\n\ngreen\n\nClick here\n"},
		{"symbols and formulas of fields", p(r("x") + wordField(`SYMBOL 97 \f "Symbol" \s 12`) + r(" = ") +
			wordField(`EQ \f(1,\r(a+b))\s\up8(2)`) + `<w:fldSimple w:instr=" SYMBOL 0xF0E0 \f Wingdings "/>`),
			"xα = $\\frac{1}{\\sqrt{a+b}}^{2}$→\n"},
		{"tables in tables", `<w:tbl><w:tr><w:tc>` + p(r("a")) + `</w:tc><w:tc>` + wordTable() + p("") +
			`</w:tc></w:tr></w:tbl>`, "| a | wide \\|  \\| c<br>tall \\| 1 \\| 2<br>3<br>\\| 4 \\| 5\\|6 |\n| --- | --- |\n"},
		{"changes as accepted", deleted(r("first ")) + p(r("second")) + deleted("<w:del><w:r><w:delText>x</w:delText></w:r>"+
			"</w:del>") + wordStyled("H1", "One"), "first second\n\n# One\n"},
		{"headings by style", wordStyled("H1", "One") + wordStyled("Mine", "Two") + p(r("text")),
			"# One\n\n# Two\n\ntext\n"},
		{"emphasis",
			p(`<w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">b ` +
				`</w:t></w:r><w:r><w:rPr><w:i/><w:b w:val="0"/></w:rPr><w:t>c</w:t></w:r>` +
				`<w:r><w:rPr><w:rStyle w:val="Strong"/></w:rPr><w:t>d</w:t></w:r>`), "**ab** *c***d**\n"},
		{"numbered and nested lists", wordItem("0", "a") + wordItem("1", "b") + wordItem("0", "c") + p(r("end")),
			"3. a\n   - b\n4. c\n\nend\n"},
		{"numbered and nested lists", wordStyled("LB", "a") + wordStyled("LB2", "b") + wordStyled("LB", "c"),
			"- a\n  - b\n- c\n"},
		{"quotes", wordStyled("Q", "said") + p(r("x")), "> said\n\nx\n"},
		{"quotes", wordStyled("LQ", "said") + wordStyled("LP", "a  b") + wordStyled("LP", "c") + // of LibreOffice
			p(r("use ")+`<w:r><w:rPr><w:rStyle w:val="LS"/></w:rPr><w:t>d</w:t></w:r>`), "> said\n\n```\na  b\nc\n```\n\nuse `d`\n"},
		{"tables with merged cells", wordTable(), "| wide |  | c |\n| --- | --- | --- |\n| tall | 1 | 2<br>3 |\n" +
			"|  | 4 | 5\\|6 |\n"},
		{"links", p(`<w:hyperlink r:id="rL">` + r("site") + `</w:hyperlink>` + r(" and ") +
			`<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText> HYPERLINK "http://b.example/" </w:instrText>` +
			`</w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>` + r("field") +
			`<w:r><w:fldChar w:fldCharType="end"/></w:r>`),
			"[site](http://a.example/) and [field](http://b.example/)\n"},
		{"alt text", p(`<w:r><w:drawing><wp:inline><wp:docPr id="1" name="P" descr="A cat"/><a:blip r:embed="rI"/>` +
			`</wp:inline></w:drawing></w:r>`), "![A cat](cat.png)\n"},
		{"alt text", p(`<w:r><w:drawing><wp:inline><wp:docPr id="1" name="P" descr="A cat"/><pic:cNvPr id="0" ` +
			`name="cat.png"/><a:blip r:embed="rI"/></wp:inline></w:drawing></w:r>`), "![A cat](cat.png)\n"},
		{"footnotes", p(r("a") + `<w:r><w:footnoteReference w:id="2"/></w:r>` + r("b")), "a[^2]b\n\n[^2]: The note.\n"},
		{"footnotes", p(r("a") + `<w:r><w:footnoteReference w:id="9"/></w:r>` + r("b")), "ab\n"},
		{"endnotes", p(r("a") + `<w:r><w:endnoteReference w:id="3"/></w:r>`), "a[^e3]\n\n[^e3]: The end.\n"},
		{"comments", p(r("a") + `<w:r><w:commentReference w:id="0"/></w:r>`), "a[^c0]\n\n[^c0]: Ann: Really?\n"},
		{"formulas", p("<m:oMath><m:r><m:t>a</m:t></m:r></m:oMath><m:oMath><m:r><m:t>b</m:t></m:r></m:oMath>"), "$a$ $b$\n"},
		{"formulas",
			p(`<m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:sSup><m:e><m:r><m:t>b</m:t></m:r>` +
				`</m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:den></m:f></m:oMath>`),
			"$\\frac{a}{b^{2}}$\n"},
		{"charts as tables", p(`<w:r><w:drawing><c:chart r:id="rC"/></w:drawing></w:r>`), chartTable + "\n"},
		{"text boxes", p(r("a") + `<w:r><w:drawing><wps:txbx><w:txbxContent>` + p(r("box")) +
			`</w:txbxContent></wps:txbx></w:drawing></w:r>`), "a\n\nbox\n"},
		{"links to headings", p(`<w:hyperlink w:anchor="_Toc1">`+r("One")+`</w:hyperlink> `+r(", ")+
			`<w:fldSimple w:instr=" HYPERLINK \l &quot;_Toc2&quot; ">`+r("again")+`</w:fldSimple>`+
			`<w:hyperlink w:anchor="_Nowhere">`+r(", nowhere")+`</w:hyperlink>`) +
			p(`<w:pPr><w:pStyle w:val="H1"/></w:pPr><w:bookmarkStart w:id="1" w:name="_Toc1"/>`+r("One, two")) +
			p(`<w:pPr><w:pStyle w:val="H1"/></w:pPr>`+r("One two")+`<w:bookmarkStart w:id="2" w:name="_Toc2"/>`),
			"[One](#one-two), [again](#one-two-1), nowhere\n\n# One, two\n\n# One two\n"},
		{"drop caps", p(`<w:pPr><w:framePr w:dropCap="drop" w:lines="3"/></w:pPr>`+r("O")) + p(r("nce upon a time")) +
			p(`<w:pPr><w:framePr w:dropCap="margin"/></w:pPr>`+r("X")), "Once upon a time\n\nX\n"},
		{"text boxes", p(`<w:r><w:drawing><w:txbxContent>` + p(`<w:r><w:drawing><a:blip r:embed="rI"/><w:txbxContent>`+
			p(r("inner"))+`</w:txbxContent></w:drawing></w:r>`+r("outer")) + `</w:txbxContent></w:drawing></w:r>`),
			"![](cat.png)outer\n\ninner\n"},
		{"insertions", p(r("a") + `<w:ins>` + r("b") + `</w:ins>`), "ab\n"},
	}
	lost := [][3]string{
		{"headers and footers of pages", p(r("a")), "a\n"}, // each document has them
		{"what forms say until they are filled in", p(r("a") + `<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>` +
			`<w:r><w:rPr><w:rStyle w:val="PT"/></w:rPr><w:t>Click here</w:t></w:r>` + r("b") + `</w:sdtContent></w:sdt>`),
			"ab\n"},
		{"deletions", p(r("a") + `<w:del><w:r><w:delText>b</w:delText></w:r></w:del>`), "a\n"},
		{"colours", p(`<w:r><w:rPr><w:color w:val="FF0000"/></w:rPr><w:t>a</w:t></w:r>`), "a\n"},
	}
	made := func(list [][3]string) (all []proof) {
		for _, c := range list {
			all = append(all, proof{c[0], "a.docx", docx(t, c[1]), c[2]})
		}
		return all
	}
	return format{names: "docx", kept: made(kept), lost: made(lost)}
}

// wordTable is a table with a cell that is two columns wide, and one that is two rows high.
func wordTable() string {
	cell := func(properties string, texts ...string) string {
		for i, text := range texts {
			texts[i] = wordParagraph(wordRun(text))
		}
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr>" + strings.Join(texts, "") + "</w:tc>"
	}
	row := func(cells ...string) string { return "<w:tr>" + strings.Join(cells, "") + "</w:tr>" }
	return "<w:tbl>" + row(cell(`<w:gridSpan w:val="2"/>`, "wide"), cell("", "c")) +
		row(cell(`<w:vMerge w:val="restart"/>`, "tall"), cell("", "1"), cell("", "2", "3")) +
		row(cell("<w:vMerge/>", ""), cell("", "4"), cell("", "5|6")) + "</w:tbl>"
}
