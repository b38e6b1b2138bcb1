package convert

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// cases are real documents in testdata that a reader got wrong once, with the right Markdown, or all that it repeats.
var cases = []struct{ file, want string }{
	{"nested-field.docx", "A RESULT B\n"},
	{"symbols.docx", "e-mail\n\nONE  \nTWO\n\nage ≥ 12, beta β\n\n✓ done →\n\nsofthyphen\n"},
	{"altchunk.docx", "Host start\n\n## Imported title\n\nImported **paragraph**\n\nHost end\n"},
	{"letters.docx", "- (a) first clause\n- (b) second clause\n  - (i) sub\n\nsee clause (b)\n"},
	{"tabs.docx", "Name: Ada  \nCity: London\n\npage break\n\n- List by style\n- second\n"},
	{"hidden.xlsx", "## Shown\n\nvisible\n"},
	{"number-formats.xlsx", "## S\n\n| kind | value |\n| --- | --- |\n| percent | 7.5% |\n| money | $1,234.50 |\n" +
		"| date | 2026-03-15 |\n| zip | 01234 |\n| sci | 1.20E-05 |\n| rounded | 65% |\n"},
	{"hyperlink-formula.xlsx", "## S\n\n| f |\n| --- |\n| [Go there](https://g.example/x) |\n"},
	{"rtf-body.msg", "# Subject ünï\n\n**From:** Ada L \\<ada@ex.example>  \n**To:** Bob B  \n**Cc:** Cee C  \n" +
		"**Date:** Wed, 01 May 2024 10:00:00 +0000\n\nOnly compressed **RTF** body éü\n\nsecond line\n"},
	{"message-in-message.msg", "# Subject ünï\n\n**From:** Ada L \\<ada@ex.example>  \n**To:** Bob B  \n" +
		"**Cc:** Cee C  \n**Date:** Wed, 01 May 2024 10:00:00 +0000\n\nOuter body\n\n## Inner subject\n\n" +
		"**From:** Zed\n\nInner body text\n"},
	{"embedded-sheet.pptx", "## T\n\n## S\n\n| Embedded cell | 42 |\n| --- | --- |\n"},
	{"no-blank-line.eml", "# No break\n\n**From:** a@x.example  \n**To:** b@x.example\n\nBody text here\n"},
	{"raw-name.eml", "# S\n\n**From:** a@x.example\n\nT\n\n## Attachment: 管理.csv\n\n| k | v |\n| --- | --- |\n| 1 | 2 |\n"},
	{"names.eml", "# S\n\n**From:** Ada \\<ada@ex.example>  \n**To:** Bob \\<bob@ex.example>  \n" +
		"**Date:** Wed, 01 May 2024 10:00:00 +0000\n\nBody\n\n## Attachment: Konzept Öffnung.xlsx\n\n## S\n\n" +
		"attached cell\n\n## Attachment: attached.txt\n\ninner text\n\n## Attachment: naïve file.txt\n\nsecond inner\n"},
	{"carriage-returns.csv", "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n"},
	{"markup.csv", "| a | b |\n| --- | --- |\n| \\<div> | \\*x\\* |\n| \\[l](u) | \\_y\\_ |\n"},
	{"colours.ipynb", "# Title\ntext\n\n````R\nprint(\"```\")\nx\n````\n\n````\ngreen\n```\ntail\n````\n\n" +
		"```\nValueError: bad\n```\n\n| c |\n| --- |\n| 7 |\n\n```\nraw *cell*\n```\n"},
	{"hidden.rtf", "**Bold**\n\n| r1c1 | r1<br>c2 |\n| --- | --- |\n|  | r2c2 |\n\nend\n"},
	{"link-in-cell.rtf", "| A | [in cell](https://c.example) |\n| --- | --- |\n\nafter\n"},
	{"comments.html", "# T\n\nyes\n\nbut no\n\nthird\n\n\\-->\n\nfourth\n"},
	{"list-in-list.html", "# T\n\n1. item 1\n2. item 2\n   1. item 2.1\n   2. item 2.2\n3. item 3\n"},
	{"bracket-in-link.html", "[see t\\]x and \\[y](z.html)\n"},
	{"entities.xml", "```xml\n<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><r xmlns:x=\"urn:x\">" +
		"<x:a k=\"v\">ACME © café</x:a><b><![CDATA[<raw> & ]]></b></r>\n```\n"},
	{"white-space-pre.html", "# T\n\n```\ndef f():\n    return 1\n```\n"},
	{"mathml.html", "# T\n\nFormula $x=\\frac{-b}{2a}$ end\n\nKaTeX $e^x$ done\n"},
	{"base.html", "[X](https://b.example/dir/x.html) [F](https://b.example/dir/#frag) ![I](https://b.example/dir/i.png)\n"},
	{"kana.csv", "| 名前 | ｶﾅ |\n| --- | --- |\n| 田中 | ﾀﾅｶ |\n| 鈴木 | ｽｽﾞｷ |\n"},
	{"gb2312-declared.html", "# 视频\n\n腾讯网 首页 新闻 体育 鼠标 阅读正文\n"},
	{"ibm437.txt", "Grüße aus Köln, déjà vu. "},
	{"ibm866.txt", "Русский текст в кодировке ДОС для проверки. "},
	{"windows-1250.txt", "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig. "},
	{"windows-1254.txt", "Türkçe metin: ığüşöç İstanbul çok güzel bir şehir. "},
	{"iso-8859-7.txt", "Ελληνικό κείμενο για δοκιμή του προγράμματος. "},
	{"actual-text.pdf", "office\n\nScanned words invisible\n\n你好\n"},
	{"blank-over-letters.pdf", "the different way\n"},
	{"fake-bold.pdf", "Statement of Accounts normal line\n"},
	{"form.pdf", "| Name: | Ada Lovelace |\n| --- | --- |\n| City: | London |\n\nFree note here\n\nUK choice\n"},
	{"hebrew.pdf", "שלום עולם\n"},
	{"legacy-cmaps.pdf", "日本語\n\n中文字\n"},
	{"glyph-names.pdf", "Specifications of The ffice € 😀 α\n"},
	{"ligatures.pdf", "Effective confident\n"},
	{"no-trailer.pdf", "Repaired text here\n"},
	{"note.pdf", "This is some very important text\n"},
	{"predefined-cmaps.pdf", "日本語テキスト\n\n简体中文文本\n\n繁體中文文字\n\n한국어 텍스트\n"},
	{"shift-jis.txt", "ﾃｽﾄ ﾌｧｲﾙ 東京都港区に住んでいます。日本語の文章です。"},
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + c.file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: c.file, Data: data})
			if err != nil || got.Text != c.want && strings.ReplaceAll(got.Text, c.want, "") != "\n" {
				t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, c.want)
			}
		})
	}
}

// Names in an archive that do not say their encoding have one in common.
func TestNamesInArchives(t *testing.T) {
	for _, name := range []string{
		"ibm437 \x9abung", "ibm866 \x8f\xe0\xa8\xa2\xa5\xe2", "shift_jis \x93\xfa\x96\x7b\x8c\xea",
	} {
		encoding, _, _ := strings.Cut(name, " ")
		want := charset.As([]byte(name), encoding)
		data := zipped(t, "a.txt", "a", name+".txt", "b")
		got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: "a.zip", Data: data})
		if err != nil || got.Text != "## a.txt\n\na\n\n## "+want+".txt\n\nb\n" {
			t.Errorf("%s: %v %q", encoding, err, got.Text)
		}
	}
}

// A guess that may be wrong is said in the front matter; what a flag says is not guessed.
func TestUnsureGuess(t *testing.T) {
	r := NewRegistry(new(tool.Set))
	data := []byte("\xcf\xd0\xc8\xc2\xc5\xd2 \xcc\xc8\xd0\n")
	for label, want := range map[string]string{
		"":       "---\ncharset_guessed: windows-1251\n---\n\nПРИВЕТ МИР\n",
		"koi8-r": charset.As(data, "koi8-r"),
	} {
		got, err := r.Convert(context.Background(), doc.Document{Name: "a.txt", Data: data, Charset: label})
		if err != nil || got.Text != want {
			t.Errorf("%s: %v %q", label, err, got.Text)
		}
	}
}

// What Jupyter folds away comes out only where it is asked for.
func TestNotebookHides(t *testing.T) {
	cell := func(metadata, source string) string {
		return `{"cell_type":"code","metadata":` + metadata + `,"source":"` + source +
			`","outputs":[{"output_type":"stream","text":"out of ` + source + `"}]}`
	}
	book := []byte(`{"cells":[` + cell(`{"jupyter":{"source_hidden":true}}`, "a") + "," +
		cell(`{"jupyter":{"outputs_hidden":true}}`, "b") + "," + cell(`{"collapsed":true}`, "c") + "," +
		cell(`{"collapsed":"false","jupyter":[]}`, "d") + `,{"cell_type":"raw","metadata":[],"source":""}]}`)
	fence := func(language, text string) string { return "```" + language + "\n" + text + "\n```\n" }
	for hidden, want := range map[bool]string{
		false: fence("", "out of a") + "\n" + fence("python", "b") + "\n" + fence("python", "c") + "\n" +
			fence("python", "d") + "\n" + fence("", "out of d"),
		true: "*hidden:*\n\n" + fence("python", "a") + "\n" + fence("", "out of a") + "\n" +
			fence("python", "b") + "\n*hidden:*\n\n" + fence("", "out of b") + "\n" +
			fence("python", "c") + "\n*hidden:*\n\n" + fence("", "out of c") + "\n" +
			fence("python", "d") + "\n" + fence("", "out of d"),
	} {
		d := doc.Document{Name: "a.ipynb", Data: book, Hidden: hidden}
		got, err := NewRegistry(new(tool.Set)).Convert(t.Context(), d)
		if err != nil || got.Text != want {
			t.Errorf("hidden %v: %v\n%s\nwant\n%s", hidden, err, got.Text, want)
		}
	}
}

// What is hidden comes out marked when it is asked for.
func TestHidden(t *testing.T) {
	data, err := os.ReadFile("testdata/hidden.xlsx")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRegistry(new(tool.Set))
	got, err := r.Convert(context.Background(), doc.Document{Name: "hidden.xlsx", Data: data, Hidden: true})
	want := "## Shown\n\n| visible | hidcol (hidden) |\n| --- | --- |\n| hidrow (hidden) |  |\n\n" +
		"## Veiled (hidden)\n\nsecretsheet\n\n## Deep (hidden)\n\ndeepsheet\n"
	if err != nil || got.Text != want {
		t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, want)
	}
	parts := partsOf(t, pptx(t, nil, slide(shape("", "", drawn("", "secret")))))
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, "<p:sld>", `<p:sld show="0">`)
	}
	got, err = r.Convert(context.Background(), doc.Document{Name: "a.pptx", Data: zipped(t, parts...), Hidden: true})
	if err != nil || got.Text != "*hidden slide*\n\nsecret\n" {
		t.Errorf("a slide: %v %q", err, got.Text)
	}
}

// A workbook whose sheets cannot be found is not an empty one.
func TestSheetsThatAreNotFound(t *testing.T) {
	data, err := os.ReadFile("testdata/no-relations.xlsx")
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: "a.xlsx", Data: data})
	if pawl.Describe(err).Kind != doc.KindCorrupt || !strings.Contains(err.Error(), "no relation") {
		t.Error(err)
	}
	parts := partsOf(t, xlsx(t, nil, `<row><c><v>1</v></c></row>`))
	last := len(parts) - 1
	parts[last] = strings.Replace(parts[last], "<sheets>", `<sheets><sheet name="Module" r:id=""/>`, 1)
	parts[last] = strings.ReplaceAll(parts[last], "r:id=", "d3p1:id=") // .NET chooses such prefixes
	d := doc.Document{Name: "a.xlsx", Data: zipped(t, parts...)}
	got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), d)
	if err != nil || got.Text != "## Sheet 1 & more\n\n1\n" {
		t.Errorf("one of two: %v %q", err, got.Text)
	}
}

// Entities that name others, that are elsewhere or that make a document much longer are not read.
func TestEntitiesThatAreNotRead(t *testing.T) {
	for _, text := range []string{
		`<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><r>&b;</r>`,
		`<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r>&a;</r>`,
		`<!DOCTYPE r [<!ENTITY a "` + strings.Repeat("a", 10_000) + `">]><r>` + strings.Repeat("&a;", 10_000) + `</r>`,
	} {
		_, err := NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: "a.xml", Data: []byte(text)})
		if pawl.Describe(err).Kind != doc.KindCorrupt || !strings.Contains(err.Error(), "entities") {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}
