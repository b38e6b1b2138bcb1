package chaos

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Sets of files.
const (
	Mix  = "1k_mix"      // a thousand files of many types
	Text = "10k_text"    // ten thousand short texts
	Deep = "deep_nested" // few files, fifty folders deep
)

// Files makes a set of files below dir.
func Files(dir, set string, seed uint64) (int, error) {
	r := rand.New(rand.NewPCG(seed, seed))
	n := 0
	write := func(name, text string) error {
		n++
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		return os.WriteFile(full, []byte(text), 0o644)
	}
	switch set {
	case Text:
		for i := range 10_000 {
			name := fmt.Sprintf("doc_%04d.md", i)
			if i%2 == 0 {
				name = fmt.Sprintf("doc_%04d.txt", i)
			}
			if err := write(name, fmt.Sprintf("# Document %d\n\n%s\n", i, lorem(r, 120))); err != nil {
				return n, err
			}
		}
	case Mix:
		for i := range 1000 {
			ext := []string{"md", "txt", "html", "csv", "json", "xml", "docx", "ipynb", "eml", "rtf"}[i%10]
			body := lorem(r, 80)
			text := fmt.Sprintf(texts[ext], i, body)
			if ext == "docx" {
				var err error
				if text, err = docx(fmt.Sprintf("Document %d", i), body); err != nil {
					return n, err
				}
			}
			if err := write(fmt.Sprintf("%s/doc_%04d.%s", ext, i, ext), text); err != nil {
				return n, err
			}
		}
	case Deep:
		path := ""
		for i := range 50 {
			path = filepath.Join(path, fmt.Sprintf("level_%02d", i))
			if err := write(filepath.Join(path, fmt.Sprintf("doc_%04d.md", i)),
				fmt.Sprintf("# Level %d\n\n%s\n", i, lorem(r, 60))); err != nil {
				return n, err
			}
		}
	default:
		return 0, fmt.Errorf("no set is called %q", set)
	}
	return n, nil
}

const words = `lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore
magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat`

func lorem(r *rand.Rand, n int) string {
	all := strings.Fields(words)
	out := make([]string, n)
	for i := range out {
		out[i] = all[r.IntN(len(all))]
	}
	return strings.Join(out, " ") + "."
}

// texts are documents by their type; each has its number and some text in it.
var texts = map[string]string{
	"md":    "# Document %d\n\n%s\n",
	"txt":   "# Document %d\n\n%s\n",
	"html":  "<html><body><h1>Document %d</h1><p>%s</p><table><tr><th>a</th></tr><tr><td>%[1]d</td></tr></table></body></html>",
	"csv":   "number,text\n%d,%s\n",
	"json":  `{"document":%d,"text":%q}`,
	"xml":   `<document number="%d"><text>%s</text></document>`,
	"ipynb": `{"cells":[{"cell_type":"markdown","source":["# Document %d\n","%s"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`,
	"eml":   "From: a@example.com\r\nTo: b@example.com\r\nSubject: Document %d\r\n\r\n%s\r\n",
	"rtf":   `{\rtf1\ansi Document %d\par %s\par}`,
}

// docx is the smallest document that Word opens.
func docx(title, text string) (string, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	const office = "http://schemas.openxmlformats.org"
	for _, part := range [][2]string{
		{"[Content_Types].xml",
			`<Types xmlns="` + office +
				`/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`},
		{"_rels/.rels",
			`<Relationships xmlns="` + office + `/package/2006/relationships"><Relationship Id="rId1" Type="` + office +
				`/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`},
		{"word/document.xml", `<w:document xmlns:w="` + office +
			`/wordprocessingml/2006/main"><w:body><w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>` + title +
			`</w:t></w:r></w:p><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:body></w:document>`},
	} {
		w, err := z.Create(part[0])
		if err != nil {
			return "", err
		}
		if _, err := w.Write([]byte(part[1])); err != nil {
			return "", err
		}
	}
	err := z.Close()
	return b.String(), err
}
