package crawl

import (
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

// TestOutputs: a crawl goes into a CSV file or a database as well, and replaces what was there.
func TestOutputs(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "<title>a, b</title>"+links("/x")),
		"/x": text("text/plain", "x")})
	for _, name := range []string{"pages.csv", "pages.db"} {
		r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{}}
		out := filepath.Join(r.dir, name)
		r.changed["out"] = out
		for range 2 {
			if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 2 {
				t.Fatalf("%s: %+v, %v", name, sum, err)
			}
		}
		var got map[string]string
		if name == "pages.csv" {
			got = titlesOfCSV(t, out)
		} else {
			got = titlesOfDatabase(t, out)
		}
		if len(got) != 2 || got[w.URL+"/"] != "a, b" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A field of a module has a column; what only a program sets is JSON in the last one.
func TestColumnsOfFields(t *testing.T) {
	var text strings.Builder
	file := filepath.Join(t.TempDir(), "pages.csv")
	err := writePages(file, []string{"price", "tags", "title"}, func(page pageWriter) error {
		return errors.Join(
			page(&Record{URL: "/a", Title: "A", Fields: map[string]any{"price": 1.5, "tags": []any{"x", "y"},
				"title": "a, b", "more": true}}, ""),
			page(&Record{URL: "/b"}, ""))
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		fmt.Fprintf(&text, "%s %q\n", row[0], row[len(columns)-1:])
	}
	want := `url ["price" "tags" "fields.title" "fields"]` + "\n" +
		`/a ["1.5" "[\"x\",\"y\"]" "a, b" "{\"more\":true}"]` + "\n" + `/b ["" "" "" ""]` + "\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", &text, want)
	}
}

func titlesOfCSV(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%v, %d rows", err, len(rows))
	}
	titles := map[string]string{}
	for _, row := range rows[1:] {
		titles[row[0]] = row[4]
	}
	return titles
}

func titlesOfDatabase(t *testing.T, path string) map[string]string {
	t.Helper()
	return titlesOfTable(t, openDatabase(t, "sqlite", path))
}

func titlesOfTable(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.Query("SELECT url, title FROM pages")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	titles := map[string]string{}
	for rows.Next() {
		var url, title string
		if err := rows.Scan(&url, &title); err != nil {
			t.Fatal(err)
		}
		titles[url] = title
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return titles
}

// TestFolderOfMarkdown: a folder has one file for each page, whatever their URLs have in common; the next
// crawl replaces it as a whole, also where one before was killed while it wrote.
func TestFolderOfMarkdown(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html; charset=iso-8859-1", "<title>caf\xe9: a</title><h1>caf\xe9</h1>"+
			links("/a", "/a.md", "/a.md/b", "/a/", "/a/index", "/a?q=1", "/%2e%2e%2fup", "/bin",
				"/"+strings.Repeat("long", 100))),
		"/a": text("text/html", "<p>a</p>"), "/a.md": text("text/markdown", "# a"), "/a.md/b": text("text/plain", "b"),
		"/a/":      text("text/plain", "c"),
		"/a/index": text("application/json", `{"d":1}`), "/bin": text("application/octet-stream", "\x00"),
		"/../up":                          text("text/plain", "up"),
		"/" + strings.Repeat("long", 100): text("text/plain", "long"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	out := filepath.Join(r.dir, "pages")
	r.changed = map[string]any{"out": out + "/"}
	var got map[string]string
	for _, stale := range []string{"pages.part/half.md", "pages.part-old/old.md", "pages/gone.md"} {
		path := filepath.Join(r.dir, stale) // what a crawl before left, whole or killed
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 10 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if got = filesOf(t, out); len(got) != 10 {
			t.Fatalf("%d files, want 10: %v", len(got), got)
		}
	}
	for url, want := range map[string]string{
		"/": "# café\n", "/a": "\na\n", "/a.md": "\n# a\n", "/a/index": "```\n{\"d\":1}\n```\n",
		"/bin": "links: 0\n---\n",
	} {
		if page := got[w.URL+url]; !strings.Contains(page, want) {
			t.Errorf("%s: %q has no %q", url, page, want)
		}
	}
	if page := got[w.URL+"/"]; !strings.HasPrefix(page, "---\nurl: \""+w.URL+"/\"\n") ||
		!strings.Contains(page, "\ntitle: \"café: a\"\n") {
		t.Errorf("the front matter of the first page: %q", page)
	}
}

// TestAFolderOfOthersIsNotReplaced: nobody loses their own files by naming the wrong folder.
func TestAFolderOfOthersIsNotReplaced(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "x")})
	r := &rig{T: t, dir: t.TempDir()}
	r.changed = map[string]any{"out": t.TempDir()}
	own := filepath.Join(r.changed["out"].(string), "own.txt")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitUsage {
		t.Errorf("want a refusal, got %v", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

// filesOf reads the Markdown files of a folder, by the URLs in their front matter.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		_, after, _ := strings.Cut(string(content), "url: \"")
		url, _, _ := strings.Cut(after, "\"")
		files[url] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestFrontMatterIsYAML: whatever a page says of itself.
func TestFrontMatterIsYAML(t *testing.T) {
	r := &Record{URL: "https://h/?a=1&b=2", Title: "a: \"b\"\n---\n\u0085\u0090\x7f\ufeff\u2028",
		Fields: map[string]any{"x": []string{"- #y"}}}
	text, err := document(r, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`url: "https://h/?a=1&b=2"`, `title: "a: \"b\"\n---\n\u0085\u0090\u007f\ufeff\u2028"`, `fields: {"x":["- #y"]}`,
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("%s has no line %s", text, want)
		}
	}
	for _, out := range []string{".", "..", "/", "./", "a/.."} {
		if checkFolder(out) == nil {
			t.Errorf("%q would be replaced", out)
		}
	}
}

// Each item of a page is a line or a row; a table has one row for each page.
func TestItemsAreRecords(t *testing.T) {
	page := Record{URL: "/list", Items: []map[string]any{{"sku": "a"}, {"sku": "b"}}}
	const want = "/list a\n/list b\n/none \n"
	for _, name := range []string{"pages.csv", "pages.jsonl"} {
		file := filepath.Join(t.TempDir(), name)
		if err := writePages(file, []string{"sku"}, func(write pageWriter) error {
			return errors.Join(write(&page, ""), write(&Record{URL: "/none"}, ""))
		}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if name == "pages.csv" {
			rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows[1:] {
				fmt.Fprintln(&got, row[0], row[len(columns)-1])
			}
		} else {
			for line := range strings.Lines(string(text)) {
				var r Record
				if err := json.Unmarshal([]byte(line), &r); err != nil || r.Items != nil {
					t.Errorf("%s: %v", line, err)
				}
				sku, _ := r.Fields["sku"].(string)
				fmt.Fprintln(&got, r.URL, sku)
			}
		}
		if got.String() != want {
			t.Errorf("%s: %q", name, got.String())
		}
	}
	if text, err := page.fieldsText(); err != nil || text != `[{"sku":"a"},{"sku":"b"}]` {
		t.Errorf("a row of a table: %s, %v", text, err)
	}
}
