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

// What says nothing by its name is told by its content.
func TestContentTellsTheType(t *testing.T) {
	inner := zipped(t, "word/document.xml", word("<w:p><w:r><w:t>inner text</w:t></w:r></w:p>"))
	for _, c := range []struct{ name, data, want string }{
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
	page := pdfOf("BT /F 20 Tf 70 700 Td (Big Title) Tj ET")
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
		{"text.pdf", "hello", doc.KindCorrupt},
		{"cut.pdf", page[:len(page)/2], doc.KindCorrupt},
		{"locked.pdf", pdfWith("/Encrypt<</Filter/Standard>>", "q Q"), doc.KindLocked},
		{"scan.pdf", pdfOf("q Q"), doc.KindUnsupported},
		{"bomb.pdf", pdfOf(strings.Repeat("\x00", 130<<20)), doc.KindTooLarge},
		{"nested.pdf", pdfOf(strings.Repeat("[", 1<<20)), doc.KindUnsupported},
		{"nested names.pdf", "%PDF-1.4 1 0 obj " + strings.Repeat("<</a", 1<<18) + " startxref", doc.KindCorrupt},
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
		Data: []byte("a")}); pawl.Describe(err).Kind != pawl.KindPanic || !strings.Contains(err.Error(), "bug of Pawl") {
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
