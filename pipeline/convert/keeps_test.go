package convert

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

var update = flag.Bool("update", false, "write the table of formats in docs/pipelines/convert.md anew")

// proof is a document that has something, and all of the Markdown that comes of it.
type proof struct {
	about string // what the document has, as the table names it; several proofs may be about the same
	name  string // of the file
	data  string
	want  string
}

// proofs makes proofs of triples: what they are about, the document, and its Markdown.
func proofs(name string, triples ...string) []proof {
	var all []proof
	for t := range slices.Chunk(triples, 3) {
		all = append(all, proof{t[0], name, t[1], t[2]})
	}
	return all
}

// format is a line of the table of formats.
type format struct {
	names  string
	kept   []proof
	marked []proof // kept with --page-markers
	lost   []proof
}

func formats(t testing.TB) []format {
	return []format{
		htmlFormat(), docxFormat(t), pptxFormat(t), xlsxFormat(t), csvFormat(), jsonFormat(), notebookFormat(),
		epubFormat(t), mailFormat(t), zipFormat(t), rtfFormat(), pdfFormat(),
		{names: "txt, md", kept: proofs("a.txt", "everything, as UTF-8", "caf\xe9\r\nx", "café\nx\n",
			"everything, as UTF-8", "# a\n\n* b\n", "# a\n\n* b\n")},
		// Stand-ins for the programs prove these two, in the tests of package tool.
		{names: "doc, ppt, xls, odt, ods, odp",
			kept: []proof{{about: "as docx, pptx and xlsx, through LibreOffice (`soffice`)"}}},
		{names: "images, scanned pdf",
			kept: []proof{{about: "text, through Tesseract and Poppler (`tesseract`, `pdftoppm`)"}},
			lost: []proof{{about: "everything else"}}},
	}
}

// Each format keeps and loses what the table says.
func TestFormatsKeep(t *testing.T) {
	r := NewRegistry(new(tool.Set))
	check := func(p proof, markers bool) {
		if p.name == "" {
			return
		}
		got, err := r.Convert(context.Background(), doc.Document{Name: p.name, Data: []byte(p.data),
			PageMarkers: markers})
		if err != nil || got.Text != p.want {
			t.Errorf("%s, %s: %v\ngot  %q\nwant %q", p.name, p.about, err, got.Text, p.want)
		}
	}
	for _, f := range formats(t) {
		for _, p := range slices.Concat(f.kept, f.lost) {
			check(p, false)
		}
		for _, p := range f.marked {
			check(p, true)
		}
	}
}

// The table in the documentation is what the proofs are about.
func TestTableOfFormats(t *testing.T) {
	const (
		document   = "../../docs/pipelines/convert.md"
		begin, end = "<!-- formats: go test ./pipeline/convert -update -->\n", "<!-- end of formats -->"
	)
	var table strings.Builder
	table.WriteString(begin + "| format | kept | lost |\n|---|---|---|\n")
	for _, f := range formats(t) {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", f.names, subjects(slices.Concat(f.kept, f.marked)), subjects(f.lost))
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", document, begin, end)
	}
	want := before + table.String() + end + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is out of date: go test ./pipeline/convert -update", document)
	}
}

// subjects lists what proofs are about, each once.
func subjects(all []proof) string {
	var list []string
	for _, p := range all {
		if !slices.Contains(list, p.about) {
			list = append(list, p.about)
		}
	}
	return strings.Join(list, ", ")
}
