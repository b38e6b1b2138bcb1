package convert

import (
	"archive/zip"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// FuzzStructure takes documents of all formats apart and puts them together in other ways: elements, groups and entries
// of archives are removed, repeated, moved and put into each other. No converter panics at any of it.
func FuzzStructure(f *testing.F) {
	var seeds []proof
	for _, format := range formats(f) {
		seeds = append(seeds, slices.Concat(format.kept, format.marked, format.lost)...)
	}
	for _, c := range cases {
		data, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, proof{name: c.file, data: string(data)})
	}
	for i := range seeds {
		f.Add(uint16(i), []byte{0, 3, 9, 1, 5, 2, 2, 7, 1, 3, 4, 8})
	}
	r := NewRegistry(new(tool.Set))
	f.Fuzz(func(t *testing.T, seed uint16, steps []byte) {
		p := seeds[int(seed)%len(seeds)]
		data := mutated(t, p.data, steps[:min(len(steps), 200)])
		md, err := r.Convert(context.Background(), doc.Document{Name: p.name, Data: data})
		if pawl.Describe(err).Kind == pawl.KindPanic || strings.Contains(md.Text, "bug of Pawl") {
			t.Errorf("%s: %v\n%s", p.name, err, md.Text)
		}
	})
}

// The fault that FuzzStructure is there for: a field within the code of another one, whose code goes on.
func TestNestedFields(t *testing.T) {
	field := func(pieces ...string) string {
		return `<w:r><w:fldChar w:fldCharType="begin"/></w:r>` + strings.Join(pieces, "") +
			`<w:r><w:fldChar w:fldCharType="end"/></w:r>`
	}
	code := func(text string) string { return "<w:r><w:instrText>" + text + "</w:instrText></w:r>" }
	const separate = `<w:r><w:fldChar w:fldCharType="separate"/></w:r>`
	inner := func(shows string) string { return field(code("MERGEFIELD x"), separate, wordRun(shows)) }
	for _, c := range [][3]string{
		{"a.docx", docx(t, wordParagraph(wordRun("A ")+field(code("IF "), inner("INNER"), code(" = 1"), separate,
			wordRun("RESULT"))+wordRun(" B"))), "A RESULT B\n"},
		{"a.docx", docx(t, wordParagraph(field(code(`HYPERLINK "http://`), inner("a.example"), code(`/"`), separate,
			wordRun("site")))), "[site](http://a.example/)\n"},
		{"a.docx", docx(t, wordParagraph(field(code("IF "), `<w:hyperlink r:id="rL">`+wordRun("x")+"</w:hyperlink>",
			`<w:fldSimple w:instr="HYPERLINK y">`+wordRun("y")+"</w:fldSimple>", separate, wordRun("shown")))), "shown\n"},
		{"a.rtf", `{\rtf1 A {\field{\*\fldinst IF {\field{\*\fldinst HYPERLINK "http://x/"}{\fldrslt INNER}} = 1}` +
			`{\fldrslt RESULT}} B\par}`, "A RESULT B\n"},
		// fields without an end, or with one that was deleted
		{"a.docx", docx(t, wordParagraph(wordRun("a")+strings.TrimSuffix(field(code("PAGE")), `<w:r><w:fldChar `+
			`w:fldCharType="end"/></w:r>`))+wordParagraph(wordRun("b"))), "a\n\nb\n"},
		{"a.docx", docx(t, wordParagraph(wordRun("a")+`<w:r><w:fldChar w:fldCharType="begin"/></w:r>`+code("PAGE")+
			`<w:del>`+separate+field(code("x"), separate)+`<w:r><w:fldChar w:fldCharType="end"/></w:r></w:del>`+
			wordRun("b"))), "ab\n"},
	} {
		got, err := NewRegistry(new(tool.Set)).Convert(context.Background(), doc.Document{Name: c[0], Data: []byte(c[1])})
		if err != nil || got.Text != c[2] {
			t.Errorf("%v\ngot  %q\nwant %q", err, got.Text, c[2])
		}
	}
}

// mutated changes the structure of a document by steps of four bytes: which part, what is done, from where, to where.
func mutated(t testing.TB, data string, steps []byte) []byte {
	parts := partsOf(t, data)
	if parts == nil {
		for step := range slices.Chunk(steps, 4) {
			data = changed(data, step)
		}
		return []byte(data)
	}
	for step := range slices.Chunk(steps, 4) {
		part := 2*(int(step[0])%(len(parts)/2)) + 1
		parts[part] = changed(parts[part], step)
	}
	return zipped(t, parts...)
}

// partsOf are the entries of an archive, as zipped takes them; nil if it is none.
func partsOf(t testing.TB, data string) []string {
	z, err := zip.NewReader(strings.NewReader(data), int64(len(data)))
	if err != nil || len(z.File) == 0 {
		return nil
	}
	parts := make([]string, 0, 2*len(z.File))
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, f.Name, string(content))
	}
	return parts
}

var pieces = regexp.MustCompile(`<[^<>]*>|[{}]|\\[a-z]+-?[0-9]*|"[^"]*"|[^<>{}\\"]+`)

// changed removes, repeats, moves, exchanges or wraps pieces of a text: tags and text, groups and words of RTF, strings
// of JSON. A piece that opens an element or a group is taken with all in it.
func changed(text string, step []byte) string {
	if len(text) > 1<<20 { // it was repeated within itself
		return text
	}
	all := pieces.FindAllString(text, -1)
	if len(step) < 4 || len(all) < 2 || len(all) > 4000 {
		return text
	}
	from, to := int(step[2])*7%len(all), int(step[3])*11%len(all)
	end := whole(all, from)
	taken := slices.Clone(all[from:end])
	switch step[1] % 6 {
	case 0: // remove
		all = slices.Delete(all, from, end)
	case 1: // repeat elsewhere
		all = slices.Insert(all, to, taken...)
	case 2: // move
		all = slices.Delete(all, from, end)
		all = slices.Insert(all, min(to, len(all)), taken...)
	case 3: // a closing tag, or a single piece, alone
		all = slices.Delete(all, from, from+1)
	case 4: // put into itself
		all = slices.Insert(all, min(from+1, len(all)), taken...)
	case 5: // exchange two pieces
		all[from], all[to] = all[to], all[from]
	}
	return strings.Join(all, "")
}

// whole is where the element or group ends that begins at a piece.
func whole(all []string, from int) int {
	depth := 0
	for i, p := range all[from:] {
		switch {
		case p == "}" || strings.HasPrefix(p, "</"):
			depth--
		case p == "{" || p[0] == '<' && !strings.HasSuffix(p, "/>"):
			depth++
		}
		if depth <= 0 {
			return from + i + 1
		}
	}
	return from + 1
}
