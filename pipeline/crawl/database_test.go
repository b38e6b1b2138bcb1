package crawl

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/pawl-dev/pawl/store/postgres" // registers "pgx"
)

func openDatabase(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestTableSQLite and TestTablePostgres: pages go to the table of a database and replace those of the crawl before,
// beside tables of others; a table that no crawl has made is refused before anything is asked for; and no summary has
// the password.
func TestTableSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my pages")
	testTable(t, "sqlite:"+path, openDatabase(t, "sqlite", path))
}

func TestTablePostgres(t *testing.T) {
	at := os.Getenv("PAWL_TEST_POSTGRES")
	if at == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	admin := openDatabase(t, "pgx", at)
	schema := fmt.Sprintf("crawl_%d_%d", os.Getpid(), time.Now().UnixNano())
	if _, err := admin.Exec("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.Exec("DROP SCHEMA " + schema + " CASCADE") })
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	testTable(t, u.String(), openDatabase(t, "pgx", u.String()))
}

func testTable(t *testing.T, out string, db *sql.DB) {
	must := func(query string) {
		t.Helper()
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "<title>a\x00b</title>"+links("/x")),
		"/x": text("text/plain", "x")})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"out": out}}
	must("CREATE TABLE pages (id INTEGER, name TEXT)")
	must("INSERT INTO pages VALUES (1, 'a row of mine')")
	if _, _, err := r.run(t.Context(), w.URL); err == nil || !strings.Contains(err.Error(), "no crawl has made") {
		t.Fatalf("a table of others: %v", err)
	}
	var mine int
	if err := db.QueryRow("SELECT count(*) FROM pages WHERE id = 1").Scan(&mine); err != nil || mine != 1 {
		t.Fatalf("%d rows, %v", mine, err)
	}
	must("ALTER TABLE pages RENAME TO others")
	for range 2 {
		sum, _, err := r.run(t.Context(), w.URL)
		if err != nil || sum.Stored != 2 || strings.ContainsAny(sum.Out, "@?") {
			t.Fatalf("%+v, %v", sum, err)
		}
		must("UPDATE pages SET title = 'stale', url = 'http://gone.example/' WHERE title = ''")
	}
	killed := errors.New("killed")
	err := writePages(out, nil, func(page pageWriter) error {
		return errors.Join(killed, page(&Record{URL: "http://half.example/"}, ""))
	})
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	got := titlesOfTable(t, db)
	if len(got) != 2 || got["http://gone.example/"] != "stale" || !strings.Contains(got[w.URL+"/"], "b") {
		t.Errorf("%v", got)
	}
}

func TestOutIsShownWithoutPassword(t *testing.T) {
	for out, want := range map[string]string{
		"postgres://me:secret@db:5432/shop?sslmode=require&password=x": "postgres://db:5432/shop",
		"postgresql://db/shop": "postgresql://db/shop",
		"sqlite:pages":         "sqlite:pages",
		"pages.jsonl":          "pages.jsonl",
	} {
		if got := shown(out); got != want {
			t.Errorf("%s: %s", out, got)
		}
	}
	for _, out := range []string{"mysql://me:secret@db/shop", "mysql://me:secret@db/shop.db"} {
		if err := formatOf(out); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", out, err)
		}
	}
}
