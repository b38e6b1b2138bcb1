package convert

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

func zipped(t testing.TB, parts ...string) []byte {
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

func word(body string) string { return "<w:document><w:body>" + body + "</w:body></w:document>" }

// Each format keeps what is in it. The inputs are small; the packages of the formats have more.
func TestFormats(t *testing.T) {
	inner := zipped(t, "word/document.xml", word("<w:p><w:r><w:t>inner text</w:t></w:r></w:p>"))
	for _, c := range []struct{ name, data, want string }{
		{"a.html", "<title>T</title><p>x <b>y</b>", "# T\n\nx **y**\n"},
		{"a.csv", "a;b\n1;\"x;\ny|\"\n", "| a | b |\n| --- | --- |\n| 1 | x;<br>y\\| |\n"},
		{"a.tsv", "a\tb\n1\t2\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"},
		{"a.json", `{"n":1.50,"s":"\u4e2d\ud83d\ude00\n"}`, "```json\n{\n  \"n\": 1.50,\n  \"s\": \"中😀\\n\"\n}\n```\n"},
		{"a.jsonl", "{\"a\":1}\n{\"a\":2}\n", "```json\n{\"a\":1}\n{\"a\":2}\n```\n"},
		{"a.xml", "<a><b>c</b></a>", "```xml\n<a><b>c</b></a>\n```\n"},
		{"a.rss",
			"<rss><channel><title>News</title><item><title>One</title><link>http://a.example/</link><pubDate>Mon</pubDate><description>&lt;p&gt;Text&lt;/p&gt;</description></item></channel></rss>",
			"# News\n\n## [One](http://a.example/)\n\nMon\n\nText\n"},
		{"a.atom",
			`<feed><title>News</title><entry><title>One</title><content type="xhtml"><div><p>a &lt; <b>b</b> <a href="http://a.example/?x=1&amp;y=2">c</a></p></div></content></entry></feed>`,
			"# News\n\n## One\n\na < **b** [c](http://a.example/?x=1&y=2)\n"},
		{"a.ipynb",
			`{"cells":[{"cell_type":"markdown","source":["# A\n","b"]},{"cell_type":"code","source":"1+1","outputs":[{"output_type":"execute_result","data":{"text/plain":["2"]}}]}],"metadata":{}}`,
			"# A\nb\n\n```python\n1+1\n```\n\n```\n2\n```\n"},
		{"a.txt", "caf\xe9\r\nx", "café\nx\n"},
		{"a.md", "# a\n\n* b\n", "# a\n\n* b\n"},
		{"a.eml",
			"From: =?iso-8859-1?Q?J=F6rg?= <j@example.com>\r\nSubject: =?utf-8?B?SMOp?=\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>a=3Db</p>\r\n--b\r\nContent-Type: text/csv; name=t.csv\r\nContent-Disposition: attachment; filename=t.csv\r\n\r\na,b\r\n--b--\r\n",
			"# Hé\n\n**From:** Jörg \\<j@example.com>\n\na=b\n\n## Attachment: t.csv\n\n| a | b |\n| --- | --- |\n"},
		{"a.rtf",
			`{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 X;}}{\stylesheet{\s1 heading 1;}}\pard\s1 Title\par\pard caf\'e9 {\b bold} \u20013?\par\trowd\pard\intbl a\cell b\cell\row\pard\intbl 1\cell 2\cell\row\pard end\par}`,
			"# Title\n\ncafé **bold** 中\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nend\n"},
		{"lists.rtf",
			`{\rtf1{\listtext\pard 1.\tab}\pard\ls1 one\par{\listtext\pard a.\tab}\pard\ilvl1\ls1 sub\par{\listtext 2.\tab}\pard two\par\pard x{\footnote \pard{\super\chftn} The note.}y\par\pard{\pntext\'B7\tab}{\*\pn x}\fi-720 bullet\par}`,
			"1. one\n   1. sub\n2. two\n\nx[^1]y\n\n- bullet\n\n[^1]: The note.\n"},
		{"a.zip", string(zipped(t, "x/a.docx", string(inner), "../../b.txt", "slip", "c.png", "\x89PNG\r\n\x1a\n")),
			"## x/a.docx\n\ninner text\n\n## b.txt\n\nslip\n\n## c.png\n\n*not converted: text in pictures needs Tesseract (tesseract), which is not installed*\n"},
		{"a.epub", string(zipped(t, "mimetype", "application/epub+zip", "META-INF/container.xml",
			`<container><rootfiles><rootfile full-path="O/c.opf"/></rootfiles></container>`,
			"O/c.opf",
			`<package><metadata><dc:title>Book</dc:title></metadata><manifest><item id="b" href="b.xhtml"/><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>`,
			"O/a.xhtml", "<html><body><h1>A</h1></body></html>", "O/b.xhtml", "<html><body><p>B</p></body></html>")),
			"# Book\n\n# A\n\nB\n"},
		{"", "<p>sniffed</p>", "sniffed\n"},
		{"unknown.ext", string(inner), "inner text\n"},
	} {
		r := NewRegistry(new(tool.Set))
		got, err := r.Convert(context.Background(), doc.Document{Name: c.name, Data: []byte(c.data)})
		if err != nil || got.Text != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", c.name, err, got.Text, c.want)
		}
	}
}

func TestHostile(t *testing.T) {
	deep := func(open, middle, end string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	nested := []byte("x")
	for range 6 {
		nested = zipped(t, "a.zip", string(nested))
	}
	whole := zipped(t, "word/document.xml", word("<w:p><w:r><w:t>"+strings.Repeat("text ", 5000)+"</w:t></w:r></w:p>"))
	encrypted := "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00",
		600) + "E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"
	for _, c := range []struct {
		name string
		data string
		kind pawl.Kind
	}{
		{"bomb.docx", string(zipped(t, "word/document.xml", strings.Repeat("a", 64<<20))), doc.KindTooLarge},
		{"bomb.zip", string(zipped(t, "a.txt", strings.Repeat("a", 64<<20))), doc.KindTooLarge},
		{"nested.zip", string(nested), doc.KindNesting},
		{"entities.xml", `<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><a>&y;</a>`, doc.KindCorrupt},
		{"entities.docx", string(zipped(t, "word/document.xml", `<!DOCTYPE a [<!ENTITY x "xx">]>`+word("&x;"))),
			doc.KindCorrupt},
		{"deep.docx", string(zipped(t, "word/document.xml", word(deep("<w:p>", "", "</w:p>", 100_000)))),
			doc.KindNesting},
		{"deep.xml", deep("<a>", "", "</a>", 100_000), doc.KindNesting},
		{"deep.json", deep("[", "", "]", 1_000_000), doc.KindCorrupt},
		{"cut.docx", string(whole[:len(whole)/2]), doc.KindCorrupt},
		{"cut.xml", "<a><b>", doc.KindCorrupt},
		{"cut.json", `{"a":`, doc.KindCorrupt},
		{"locked.docx", encrypted, doc.KindLocked},
		{"text.docx", "just text", doc.KindCorrupt},
		{"empty.pdf", "", doc.KindCorrupt},
		{"zip.txt", string(whole), doc.KindCorrupt},
		{"sheet.docx", string(zipped(t, "xl/workbook.xml", "<workbook/>")), doc.KindCorrupt},
		{"a.bin", "\x00\x01\x02\x03", doc.KindUnsupported},
		{"a.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", doc.KindToolMissing},
		{"a.png", "\x89PNG\r\n\x1a\n", doc.KindToolMissing},
		{"a.msg", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and nothing", doc.KindCorrupt},
	} {
		start := time.Now()
		_, err := NewRegistry(new(tool.Set)).Convert(context.Background(),
			doc.Document{Name: c.name, Data: []byte(c.data)})
		if f := pawl.Describe(err); f.Kind != c.kind || f.Class != pawl.ClassPermanent {
			t.Errorf("%s: kind %q, %v; want %s", c.name, f.Kind, err, c.kind)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s took %v", c.name, d)
		}
	}
}

// A converter that panics or hangs takes only its document with it.
func TestConvertersThatGiveUp(t *testing.T) {
	r := NewRegistry(new(tool.Set))
	r.Timeout = 50 * time.Millisecond
	r.Formats["txt"] = Format{Primary: Engine{"panics", Func(func(context.Context, doc.Document) (doc.Markdown, error) {
		panic("no")
	})}}
	r.Formats["md"] = Format{Primary: Engine{"hangs", Func(func(context.Context, doc.Document) (doc.Markdown, error) {
		select {}
	})}}
	if _, err := r.Convert(context.Background(), doc.Document{Name: "a.txt",
		Data: []byte("a")}); pawl.Describe(err).Kind != doc.KindCorrupt {
		t.Error(err)
	}
	if _, err := r.Convert(context.Background(), doc.Document{Name: "a.md", Data: []byte("a")}); !errors.Is(err,
		errTimeout) || pawl.Describe(err).Class == pawl.ClassPermanent {
		t.Error(err)
	}
	// The fallback takes what the primary finds corrupt.
	r.Formats["txt"] = Format{Primary: r.Formats["txt"].Primary,
		Fallback: Engine{"works", Func(func(context.Context, doc.Document) (doc.Markdown, error) {
			return doc.Markdown{Text: "ok"}, nil
		})}}
	if md, err := r.Convert(context.Background(), doc.Document{Name: "a.txt", Data: []byte("a")}); err != nil ||
		md.Text != "ok" {
		t.Error(md, err)
	}
}
