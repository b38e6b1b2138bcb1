package crawl

import (
	"database/sql"
	"encoding/csv"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestOutputs: a crawl goes into a CSV file or a database as well, and replaces what was there.
func TestOutputs(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "<title>a, b</title>"+links("/x")), "/x": text("text/plain", "x")})
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
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
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
