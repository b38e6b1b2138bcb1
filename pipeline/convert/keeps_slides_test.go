package convert

import "testing"

// pptx makes a presentation of slides. All of them have a layout with a text, and what else related names.
func pptx(t testing.TB, related []string, slides ...string) string {
	t.Helper()
	related = append(related, "rC", "chart", "../charts/c.xml", "rI", "image", "../media/dog.jpg",
		"rY", "slideLayout", "../slideLayouts/l.xml", "rL", "hyperlink", "http://a.example/")
	parts := []string{"_rels/.rels", relations("r1", "officeDocument", "ppt/presentation.xml"),
		"ppt/slideLayouts/l.xml", slide(shape(`<p:ph type="title"/>`, "", drawn("", "Click to add a title"))),
		"ppt/notesSlides/n.xml", `<p:notes><p:cSld><p:spTree>` + shape(`<p:ph type="body" idx="1"/>`, "",
			drawn("", "Say this.")) + `</p:spTree></p:cSld></p:notes>`,
		"ppt/comments/c.xml", comments("Really?"), "ppt/comments/d.xml", comments("Two"),
		"ppt/comments/e.xml", comments("Three"), "ppt/comments/f.xml", comments("Four"),
		"ppt/commentAuthors.xml", `<p:cmAuthorLst><p:cmAuthor id="0" name="Ann"/></p:cmAuthorLst>`,
		"ppt/charts/c.xml", chart}
	list, rels := "", []string{"rA", "commentAuthors", "commentAuthors.xml"}
	for i, s := range slides {
		n := string(rune('1' + i))
		list += `<p:sldId r:id="r` + n + `"/>`
		rels = append(rels, "r"+n, "slide", "slides/slide"+n+".xml")
		parts = append(parts, "ppt/slides/slide"+n+".xml", s,
			"ppt/slides/_rels/slide"+n+".xml.rels", relations(related...))
	}
	parts = append(parts, "ppt/_rels/presentation.xml.rels", relations(rels...), "ppt/presentation.xml",
		`<p:presentation><p:sldIdLst>`+list+`</p:sldIdLst></p:presentation>`)
	return string(zipped(t, parts...))
}

func comments(text string) string {
	return `<p:cmLst><p:cm authorId="0"><p:text>` + text + `</p:text></p:cm></p:cmLst>`
}

func slide(shapes string) string {
	return `<p:sld><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld>` +
		`<p:timing><p:tnLst><p:par><p:cTn id="1" presetClass="entr"/></p:par></p:tnLst></p:timing></p:sld>`
}

// shape is one with a text, at a place.
func shape(placeholder, offset, body string) string {
	return `<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:nvPr>` + placeholder + `</p:nvPr></p:nvSpPr><p:spPr><a:xfrm>` +
		offset + `</a:xfrm></p:spPr><p:txBody>` + body + `</p:txBody></p:sp>`
}

// drawn is a paragraph of a shape.
func drawn(properties, text string) string {
	return `<a:p>` + properties + `<a:r><a:t>` + text + `</a:t></a:r></a:p>`
}

func pptxFormat(t testing.TB) format {
	at := func(x, y string) string { return `<a:off x="` + x + `" y="` + y + `"/>` }
	frame := func(graphic string) string {
		return `<p:graphicFrame><a:graphic><a:graphicData>` + graphic + `</a:graphicData></a:graphic></p:graphicFrame>`
	}
	cell := func(attrs, body string) string { return "<a:tc" + attrs + "><a:txBody>" + body + "</a:txBody></a:tc>" }
	of := func(shapes string) string { return pptx(t, nil, slide(shapes)) }
	text := slide(shape("", "", drawn("", "text")))
	return format{
		names: "pptx",
		kept: proofs("a.pptx",
			"titles", of(shape("", at("0", "0"), drawn("", "a"))+shape(`<p:ph type="title"/>`, at("0", "9"),
				drawn("", "The Title"))), "## The Title\n\na\n",
			"lists", of(shape(`<p:ph idx="1"/>`, "", drawn("", "first")+drawn(`<a:pPr lvl="1"/>`, "inner")+
				drawn(`<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>`, "one"))), "- first\n  - inner\n\n1. one\n",
			"reading order", of(shape("", at("5000000", "3000000"), drawn("", "right"))+
				shape("", at("100000", "3000100"), drawn("", "left"))+shape("", at("0", "1000000"), drawn("", "top"))),
			"top\n\nleft\n\nright\n",
			"tables", of(frame(`<a:tbl><a:tr>`+cell(` gridSpan="2"`, drawn("", "head"))+cell(` hMerge="1"`, "")+
				`</a:tr><a:tr>`+cell("", drawn("", "1"))+cell("", drawn("", "2"))+`</a:tr></a:tbl>`)),
			"| head |  |\n| --- | --- |\n| 1 | 2 |\n",
			"charts as tables", of(frame(`<c:chart r:id="rC"/>`)), chartTable+"\n",
			"alt text", of(`<p:pic><p:nvPicPr><p:cNvPr id="2" name="P" descr="A dog"/><p:nvPr/></p:nvPicPr>`+
				`<p:blipFill><a:blip r:embed="rI"/></p:blipFill></p:pic>`), "![A dog](dog.jpg)\n",
			"links", of(shape("", "", `<a:p><a:r><a:rPr><a:hlinkClick r:id="rL"/></a:rPr><a:t>site</a:t></a:r></a:p>`)),
			"[site](http://a.example/)\n",
			"notes", pptx(t, []string{"rN", "notesSlide", "../notesSlides/n.xml"}, text),
			"text\n\n### Notes:\n\nSay this.\n",
			"comments", pptx(t, []string{"rK", "comments", "../comments/f.xml", "rM", "comments", "../comments/d.xml",
				"rO", "comments", "../comments/c.xml", "rP", "comments", "../comments/e.xml"}, text),
			"text\n\n> Ann: Really?\n\n> Ann: Two\n\n> Ann: Three\n\n> Ann: Four\n",
		),
		marked: proofs("a.pptx", "numbers of slides (`--page-markers`)", pptx(t, nil, text, text),
			"<!-- Slide number: 1 -->\n\ntext\n\n<!-- Slide number: 2 -->\n\ntext\n"),
		lost: proofs("a.pptx", "animations", pptx(t, nil, text), "text\n",
			"texts of layouts", of(shape(`<p:ph type="title"/>`, "", "")+shape("", "", drawn("", "text"))), "text\n"),
	}
}
