package convert

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/pdf"
)

// pdfOf makes a PDF file of pages. Its first one has a link on the line at 600.
func pdfOf(pages ...string) string { return pdfWith("", pages...) }

// pdfWith makes one with more in its trailer.
func pdfWith(trailer string, pages ...string) string {
	var b strings.Builder
	b.WriteString(`%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</BaseEncoding/WinAnsiEncoding/Differences[1/fi/eacute]>>>> endobj
6 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold>> endobj
7 0 obj <</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 8 0 R/DescendantFonts[<</DW 500>>]>> endobj
8 0 obj <<>> stream
1 beginbfrange <0001> <0003> <4E00> endbfrange 1 beginbfchar <0009> <D83DDE00> endbfchar
endstream endobj
9 0 obj <</Type/Font/Subtype/Type1/BaseFont/Courier>> endobj
`)
	var kids strings.Builder
	for i, content := range pages {
		page := 10 + 2*i
		fmt.Fprintf(&kids, "%d 0 R ", page)
		annotations := ""
		if i == 0 {
			annotations = "/Annots[<</Subtype/Link/Rect[70 590 200 612]/A<</S/URI/URI(http://a.example/)>>>>]"
		}
		fmt.Fprintf(&b, "%d 0 obj <</Type/Page/Parent 2 0 R/Contents %d 0 R%s>> endobj\n", page, page+1, annotations)
		filter := ""
		if i == 0 { // those after it are not packed
			content, filter = deflated(content), "/Filter/FlateDecode"
		}
		fmt.Fprintf(&b, "%d 0 obj <</Length %d%s>> stream\n%s\nendstream endobj\n", page+1, len(content),
			filter, content)
	}
	const fonts = "/Resources<</Font<</F 5 0 R/B 6 0 R/U 7 0 R/C 9 0 R>>>>"
	fmt.Fprintf(&b, "2 0 obj <</Type/Pages/Kids[%s]/Count %d%s>> endobj\n", kids.String(), len(pages), fonts)
	fmt.Fprintf(&b, "trailer <</Root 1 0 R%s>>\nstartxref\n0\n%%%%EOF", trailer)
	return b.String()
}

func deflated(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(s)) // to memory
	_ = z.Close()
	return b.String()
}

func pdfFormat() format {
	// shown is text at places of the page, each a line of x, y and the text.
	shown := func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			x, rest, _ := strings.Cut(l, " ")
			y, text, _ := strings.Cut(rest, " ")
			b.WriteString("BT /F 10 Tf " + x + " " + y + " Td (" + text + ") Tj ET\n")
		}
		return pdfOf(b.String())
	}
	// ruled is a table of lines and thin areas. The first cell of its second row reaches over the third.
	const ruled = `BT /F 10 Tf 70 720 Td (Above it.) Tj ET 70 710 m 300 710 l 300 620 l 70 620 l s 130 620 0.5 90 re f ` +
		`70 690 230 0.5 re f 70 638 m 300 638 l S 130 652 m 300 652 l S BT /F 10 Tf 75 697 Td (Name) Tj ` +
		`60 0 Td (What it is) Tj 0 -20 Td (a long text in) Tj 0 -12 Td (several lines) Tj -60 -24 Td (rope) Tj ` +
		`60 0 Td (more) Tj -60 -16 Td (tape) Tj 60 0 Td (last) Tj ET BT /F 10 Tf 70 560 Td (Below it.) Tj ET`
	form, _ := os.ReadFile("testdata/form.pdf") // without it the proof fails
	const plain = "BT /F 10 Tf 70 640 Td (A line of plain text) Tj 0 -12 Td (and one more.) Tj ET\n"
	return format{
		names: "pdf",
		kept: proofs("a.pdf",
			"paragraphs", pdfOf(`BT /F 10 Tf 70 670 Td (One paragraph) Tj 0 -12 Td [(that is hy) -10 (phen-)] TJ `+
				`T* 0 -12 Td (ated \001ne caf\002.) Tj ET`), "One paragraph that is hyphenated fine café.\n",
			"paragraphs", pdfOf(`BT /F 10 Tf 70 700 Td (A paragraph of a line and more) Tj 0 -12 Td (that ends.) Tj `+
				`0 -12 Td (Another one) Tj ET`), "A paragraph of a line and more that ends.\n\nAnother one\n",
			"text in any script", pdfOf(`BT /U 10 Tf 70 440 Td <000100020009> Tj ET`), "一丁😀\n",
			"headings by size and weight", pdfOf(`BT /F 20 Tf 70 700 Td (Big Title) Tj ET `+plain+
				`BT /B 10 Tf 70 600 Td (Bold heading) Tj ET BT /F 10 Tf 70 580 Td (text) Tj ET`),
			"# Big Title\n\nA line of plain text and one more.\n\n## [Bold heading](http://a.example/)\n\ntext\n",
			"lists", shown("70 570 \\225 first", "70 558 \\225 second"), "- first\n- second\n",
			"lists", shown("70 700 \\177", "88 700 one", "70 688 \\177", "82 688 \\177", "100 688 inner", "70 676 1",
				"80 676 first", "70 664 2", "80 664 second"), "- one\n  - inner\n\n1. first\n2. second\n",
			"tables by columns", shown("70 500 Name", "170 500 Size", "70 486 rope", "170 486 12"),
			"| Name | Size |\n| --- | --- |\n| rope | 12 |\n",
			"tables by columns", shown("70 700 ii", "86 700 b", "70 685 li", "86 685 d"),
			"| ii | b |\n| --- | --- |\n| li | d |\n",
			"tables by rules", pdfOf(ruled), "Above it.\n\n| Name | What it is |\n| --- | --- |\n"+
				"| rope | a long text in several lines |\n|  | more |\n| tape | last |\n\nBelow it.\n",
			"tables by rules", pdfOf(`100 0 0 100 0 0 cm 0 0 6 8 re f 0 0 3 8 re S 0 4 3 4 re S 0 0 6 8 re S .01 0 0 .01 0 0 cm `+
				`BT /F 10 Tf 70 700 Td (A frame of columns) Tj 0 -12 Td (is not a table.) Tj ET`),
			"A frame of columns is not a table.\n",
			"forms and notes", string(form), "| Name: | Ada Lovelace |\n| --- | --- |\n| City: | London |\n\n"+
				"Free note here\n\nUK choice\n",
			"links", shown("70 600 a link"), "[a link](http://a.example/)\n",
			"links", shown("70 600 a link that", "70 588 goes on"), "[a link that goes on](http://a.example/)\n",
			"emphasis", pdfOf(`BT /F 10 Tf 70 700 Td (Some ) Tj /B 10 Tf (bold) Tj /F 10 Tf ( words) Tj ET`),
			"Some **bold** words\n",
			"code by its font", pdfOf(`BT /C 10 Tf 70 700 Td (if x:) Tj 0 -12 Td (    y) Tj 12 -12 Td (z) Tj ET`),
			"```\nif x:\n    y\n  z\n```\n",
		),
		marked: proofs("a.pdf", "numbers of pages (`--page-markers`)",
			pdfOf("BT /F 10 Tf 70 700 Td (One.) Tj ET", "BT /F 10 Tf 70 700 Td (Two.) Tj ET"),
			"<!-- Page 1 -->\n\nOne.\n\n<!-- Page 2 -->\n\nTwo.\n"),
		lost: proofs("a.pdf", "pictures",
			pdfOf("q 9 0 0 9 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID x EI Q BT /F 10 Tf 70 700 Td (text) Tj ET"),
			"text\n"),
	}
}

func FuzzPDF(f *testing.F) {
	f.Add([]byte(pdfOf("BT /F 20 Tf 70 700 Td (Big Title) Tj ET", "BT /U 10 Tf 70 440 Td <00010002> Tj ET")))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = pdf.Convert(context.Background(), doc.Document{Data: data})
	})
}
