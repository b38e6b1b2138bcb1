package pdf_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/pdf"
)

// file makes a PDF file of one page.
func file(content string, packed bool, more string) []byte {
	filter := ""
	if packed {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		_, _ = z.Write([]byte(content))
		_ = z.Close()
		content, filter = b.String(), "/Filter/FlateDecode"
	}
	return fmt.Appendf(nil, `%%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F 5 0 R/B 6 0 R/U 7 0 R/C 9 0 R>>>>>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/Contents 4 0 R/Annots[<</Subtype/Link/Rect[70 590 200 612]/A<</URI(http://a.example/)>>>>]>> endobj
4 0 obj <</Length %d%s>> stream
%s
endstream endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding<</BaseEncoding/WinAnsiEncoding/Differences[1/fi/eacute]>>>> endobj
6 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold>> endobj
7 0 obj <</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 8 0 R/DescendantFonts[<</DW 500>>]>> endobj
9 0 obj <</Type/Font/Subtype/Type1/BaseFont/Courier>> endobj
8 0 obj <<>> stream
1 beginbfrange <0001> <0003> <4E00> endbfrange 1 beginbfchar <0009> <D83DDE00> endbfchar
endstream endobj
trailer <</Root 1 0 R%s>>
startxref
0
%%%%EOF`, len(content), filter, content, more)
}

// What tells blocks apart that stand close together.
func TestConvertBlocks(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"a paragraph ends where a word more would have had room",
			`BT /F 10 Tf 70 700 Td (A paragraph of a line and more) Tj 0 -12 Td (that ends.) Tj 0 -12 Td (Another one) Tj ET`,
			"A paragraph of a line and more that ends.\n\nAnother one"},
		{"emphasis", `BT /F 10 Tf 70 700 Td (Some ) Tj /B 10 Tf (bold) Tj /F 10 Tf ( words) Tj ET`,
			"Some **bold** words"},
		{"marks without a character of their own, and numbers without a dot",
			`BT /F 10 Tf 70 700 Td (\177) Tj ET BT /F 10 Tf 88 700 Td (one) Tj ET BT /F 10 Tf 70 688 Td (\177) Tj ET
BT /F 10 Tf 82 688 Td (\177) Tj ET BT /F 10 Tf 100 688 Td (inner) Tj ET BT /F 10 Tf 70 676 Td (1) Tj ET BT /F 10 Tf 80 676 Td (first) Tj ET BT /F 10 Tf 70 664 Td (2) Tj ET BT /F 10 Tf 80 664 Td (second) Tj ET`,
			"- one\n  - inner\n\n1. first\n2. second"},
		{"narrow columns of a table",
			`BT /F 10 Tf 70 700 Td (ii) Tj ET BT /F 10 Tf 86 700 Td (b) Tj ET BT /F 10 Tf 70 685 Td (li) Tj ET BT /F 10 Tf 86 685 Td (d) Tj ET`,
			"| ii | b |\n| --- | --- |\n| li | d |"},
		{"code", `BT /C 10 Tf 70 700 Td (if x:) Tj 0 -12 Td (    y) Tj 12 -12 Td (z) Tj ET`,
			"```\nif x:\n    y\n  z\n```"},
	} {
		got, err := pdf.Convert(context.Background(), doc.Document{Data: file(c.page, true, "")})
		if err != nil || strings.TrimSpace(got.Text) != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.name, err, got.Text, c.want)
		}
	}
}

const page = `BT /F 20 Tf 70 700 Td (Big Title) Tj ET
BT /F 10 Tf 70 670 Td (One paragraph) Tj 0 -12 Td [(that is hy) -10 (phen-)] TJ T* 0 -12 Td (ated \001ne caf\002.) Tj ET
BT /B 10 Tf 70 620 Td (Bold heading) Tj ET
BT /F 10 Tf 70 600 Td (a link) Tj ET
BT /F 10 Tf 70 570 Td (\225 first) Tj 0 -12 Td (\225 second) Tj ET
BT /F 10 Tf 70 500 Td (Name) Tj 100 0 Td (Size) Tj -100 -14 Td (rope) Tj 100 0 Td (12) Tj ET
BT /U 10 Tf 70 440 Td <00010002> Tj <0009> Tj ET`

func TestConvert(t *testing.T) {
	want := "# Big Title\n\nOne paragraph that is hyphenated fine café.\n\n## Bold heading\n\n[a link](http://a.example/)\n\n- first\n- second\n\n| Name | Size |\n| --- | --- |\n| rope | 12 |\n\n一丁😀\n"
	for _, packed := range []bool{false, true} {
		got, err := pdf.Convert(context.Background(), doc.Document{Data: file(page, packed, "")})
		if err != nil || got.Text != want {
			t.Errorf("packed %v: %v\ngot  %q\nwant %q", packed, err, got.Text, want)
		}
	}
}

func TestConvertHostile(t *testing.T) {
	whole := file(page, true, "")
	bomb := file(strings.Repeat("\x00", 130<<20), true, "")
	for name, c := range map[string]struct {
		data []byte
		kind pawl.Kind
	}{
		"locked":       {file(page, true, "/Encrypt<</Filter/Standard>>"), doc.KindLocked},
		"cut off":      {whole[:len(whole)/2], doc.KindCorrupt},
		"no PDF":       {[]byte("hello"), doc.KindCorrupt},
		"no text":      {file("q Q", true, ""), doc.KindUnsupported},
		"bomb":         {bomb, doc.KindTooLarge},
		"nested":       {file(strings.Repeat("[", 1<<20), true, ""), doc.KindUnsupported},
		"nested names": {[]byte("%PDF-1.4 1 0 obj " + strings.Repeat("<</a", 1<<18) + " startxref"), doc.KindCorrupt},
	} {
		start := time.Now()
		_, err := pdf.Convert(context.Background(), doc.Document{Data: c.data})
		if k := pawl.Describe(err).Kind; k != c.kind || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %v after %v; want kind %s", name, err, time.Since(start), c.kind)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add(file(page, true, ""))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = pdf.Convert(context.Background(), doc.Document{Data: data})
	})
}
