package convert

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// A document whose text is all in one unusual place does not come out empty.
func TestTextInUnusualPlaces(t *testing.T) {
	p, r := wordParagraph, wordRun
	const (
		shown   = "text\n"
		sheets  = "## Sheet 1 & more\n\n"
		diagram = `<d:dataModel><d:ptLst><d:pt><d:t><a:p><a:r><a:t>text</a:t></a:r></a:p></d:t></d:pt></d:ptLst>` +
			`</d:dataModel>`
	)
	with := func(data string, parts ...string) string {
		return string(zipped(t, append(partsOf(t, data), parts...)...))
	}
	related := func(kind, xml string) string { // a document that is empty but for a part
		return string(zipped(t, "word/document.xml", word(p("")), "word/_rels/document.xml.rels",
			relations("r1", kind, "part.xml"), "word/part.xml", xml))
	}
	drawing := func(inner string) string { return docx(t, p("<w:r><w:drawing>"+inner+"</w:drawing></w:r>")) }
	deck := func(kind, xml string) string {
		return with(pptx(t, []string{"r1", kind, "../part.xml"}, slide("")), "ppt/part.xml", xml)
	}
	book := func(spine string) string {
		return string(zipped(t, "META-INF/container.xml",
			`<container><rootfiles><rootfile full-path="o.opf"/></rootfiles></container>`,
			"o.opf", `<package><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/><item id="b" `+
				`href="b.svg" media-type="image/svg+xml"/><item id="c" href="c"/></manifest><spine>`+spine+`</spine></package>`,
			"a.xhtml", "<p>text", "b.svg", "<svg><text>drawn</text></svg>"))
	}
	box := `<w:txbxContent>` + p(r("text")) + `</w:txbxContent>`
	text := drawn("", "text")
	for _, c := range []struct{ name, data, want string }{
		{"box of VML.docx", docx(t, p(`<w:r><w:pict><v:textbox>`+box+`</v:textbox></w:pict></w:r>`)), shown},
		{"fallback.docx", docx(t, p(`<w:r><mc:AlternateContent><mc:Choice/><mc:Fallback><w:pict>`+box+
			`</w:pict></mc:Fallback></mc:AlternateContent></w:r>`)), shown},
		{"canvas.docx", drawing(`<a:sp><a:txBody>` + text + `</a:txBody></a:sp>`), shown},
		{"letters.docx", docx(t, p(`<w:r><w:pict><v:textpath string="text"/></w:pict></w:r>`)), shown},
		{"header.docx", related("header", "<w:hdr>"+p(r("text"))+"</w:hdr>"), shown},
		{"footer.docx", related("footer",
			"<w:ftr><w:sdt><w:sdtContent>"+p(r("text"))+"</w:sdtContent></w:sdt></w:ftr>"), shown},
		{"comment.docx", related("comments",
			`<w:comments><w:comment w:id="0">`+p(r("text"))+`</w:comment></w:comments>`), shown},
		{"note.docx", related("footnotes",
			`<w:footnotes><w:footnote w:id="2">`+p(r("text"))+`</w:footnote></w:footnotes>`), shown},
		{"alternative.pptx", pptx(t, nil, slide(`<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr descr="text"/>`+
			`</p:nvGraphicFramePr></p:graphicFrame>`)), "![text]()\n"},
		{"layout.pptx", deck("slideLayout", `<p:sldLayout><p:cSld><p:spTree>`+shape("", "", text)+
			shape(`<p:ph type="body"/>`, "", drawn("", "Click here"))+`</p:spTree></p:cSld></p:sldLayout>`), shown},
		{"notes.pptx", deck("notesSlide", slide(shape("", "", text))), "### Notes:\n\ntext\n"},
		{"header.xlsx", xlsx(t, nil, `</sheetData><oddHeader>&amp;L&amp;"Arial,Bold"&amp;12text</oddHeader><sheetData>`),
			sheets + shown},
		{"diagram.xlsx", with(xlsx(t, []string{"r1", "drawing", "../part.xml"}, ""), "xl/part.xml",
			`<xdr:wsDr><d:relIds r:dm="r1"/></xdr:wsDr>`, "xl/_rels/part.xml.rels", relations("r1", "diagramData", "d.xml"),
			"xl/d.xml", diagram), sheets + "- text\n"},
		{"no order.epub", book(""), "text\n\ndrawn\n"},
		{"order of nothing.epub", book(`<itemref idref="x"/><itemref idref="c"/>`), "text\n\ndrawn\n"},
		{"drawing.epub", book(`<itemref idref="b"/>`), "drawn\n"},
		{"drawing.svg", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><text>text</text></svg>`, shown},
		{"shown by a script.html", "<body hidden><div style='display:none'>text</div>", shown},
		{"drawing.eml", "Content-Type: text/html\r\n\r\n<svg><text>text</text></svg>", shown},
		{"header.rtf", `{\rtf1{\header text}}`, shown},
		{"separator.csv", "sep=;", ""},
		{"spaces.csv", " ,\n ,\u00a0\n", ""},
		{"spaces.json", " \n", ""},
	} {
		d := doc.Document{Name: c.name, Data: []byte(c.data)}
		got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), d)
		if err != nil || got.Text != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.name, err, got.Text, c.want)
		}
	}
}

// A document whose text is all hidden fails, and says how to convert it.
func TestAllThatIsHidden(t *testing.T) {
	of := func(inner string) string { return string(zipped(t, "word/document.xml", word(wordParagraph(inner)))) }
	for _, c := range []struct{ name, data, want string }{
		{"hidden.docx", of("<w:r><w:rPr><w:vanish/></w:rPr><w:t>text</w:t></w:r>"), "text (hidden)\n"},
		{"deleted.docx", of("<w:del><w:r><w:delText>text</w:delText></w:r></w:del>"), "~~text~~\n"},
		{"slide.pptx", pptx(t, nil, strings.Replace(slide(shape("", "", drawn("", "text"))), "<p:sld>",
			`<p:sld show="0">`, 1)), "*hidden slide*\n\ntext\n"},
		{"row.xlsx", xlsx(t, nil, `<row hidden="1"><c t="inlineStr"><is><t>text</t></is></c></row>`),
			"## Sheet 1 & more\n\ntext (hidden)\n"},
		{"hidden.rtf", `{\rtf1{\v text}}`, "text\n"},
		{"deleted.rtf", `{\rtf1{\deleted text}}`, "~~text~~\n"},
	} {
		d := doc.Document{Name: c.name, Data: []byte(c.data)}
		got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), d)
		if pawl.Describe(err).Kind != doc.KindHidden || !strings.Contains(advice(doc.KindHidden), "--hidden") {
			t.Errorf("%s: %v %q", c.name, err, got.Text)
		}
		d.Hidden = true
		got, err = NewRegistry(new(tool.Set)).Convert(context.Background(), d)
		if err != nil || got.Text != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.name, err, got.Text, c.want)
		}
	}
}
