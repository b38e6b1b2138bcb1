//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"
)

// shop is an application with a table, an outbox and a search index behind a proxy that breaks what passes.
// Its daemon is that of the incident.
type shop struct {
	*incident
	db                     *sql.DB
	pg                     bool
	search, proxied, index string
	keys                   string // of the section, in place of the defaults
	// fault, if set, sees every request; it answers and returns true, or lets it pass.
	fault atomic.Pointer[fail]
	seen  atomic.Int64 // requests with a document that was rolled back
}

type fail func(w http.ResponseWriter, r *http.Request, body []byte) bool

// TestProject has shops on PostgreSQL and on SQLite go through what can happen to them, all beside each
// other: they mostly wait, whatever the number of processors.
func TestProject(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for name, happens := range map[string]func(*shop){
		"kills": survivesKills, "rebuild": rebuildSurvivesKills, "dead letters": deadLetters, "outages": outages,
		"operations": operations,
	} {
		for _, on := range []string{"postgres", "sqlite"} {
			wg.Go(func() {
				t.Run(name+" on "+on, func(t *testing.T) { happens(newShop(newIncident(t, ""), on == "postgres")) })
			})
		}
	}
}

// needed returns where a server of the tests is. Without one the test is skipped; where it is required, it fails.
func needed(t *testing.T, variable, service string) string {
	t.Helper()
	at := os.Getenv(variable)
	if at == "" && strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), service) {
		t.Fatalf("%s is not set, and PAWL_TEST_REQUIRE asks for it", variable)
	}
	if at == "" {
		t.Skipf("%s is not set; dev/services run -- go test …", variable)
	}
	return at
}

func newShop(in *incident, pg bool) *shop {
	in.Helper()
	s := &shop{incident: in, pg: pg, search: needed(in.T, "PAWL_TEST_OPENSEARCH", "opensearch"),
		index: fmt.Sprintf("e2e-%08x", rand.Uint32())}
	s.keys = "lease_seconds: 2, poll_interval: 100ms, batch_wait: 50ms, backoff: {base: 100ms, max: 1s}"
	driver, dsn, at := "sqlite", "file:"+filepath.Join(in.dir,
		"shop.db")+"?_pragma=busy_timeout(30000)&_txlock=immediate", "sqlite:shop.db"
	if pg {
		driver, at = "pgx", s.database()
		dsn = at
	}
	in.env = append(in.env, "PAWL_STORE="+at)
	s.proxy()
	in.must("pawl migrate up -q && pawl project init >grants.sql")
	var err error
	if s.db, err = sql.Open(driver, dsn); err != nil {
		in.Fatal(err)
	}
	in.Cleanup(func() { _ = s.db.Close() })
	s.exec(`CREATE TABLE goods (id integer PRIMARY KEY, name text, version bigint, gone boolean DEFAULT false)`)
	s.exec(`CREATE VIEW products AS SELECT id, name, version FROM goods WHERE NOT gone`)
	s.configure("")
	return s
}

// configure writes the configuration, with more keys of the section.
func (s *shop) configure(more string) {
	s.Helper()
	doc := "json_object('name', name)"
	if s.pg {
		doc = "json_build_object('name', name)"
	}
	if more != "" {
		more = ", " + more
	}
	s.write("pawl.yaml",
		fmt.Sprintf("drain: 1s\npipelines:\n  search: {kind: project, sink: {url: %q, index: %s}, %s%s,\n"+
			"    source: {table: products, key: id, doc_id: id, version: version, doc: %q}}\n", s.proxied, s.index,
			s.keys, more, doc))
}

// database makes one, and drops it at the end.
func (s *shop) database() string {
	s.Helper()
	at := needed(s.T, "PAWL_TEST_POSTGRES", "postgres")
	u, err := url.Parse(at)
	if err != nil {
		s.Fatal(err)
	}
	admin, err := sql.Open("pgx", at)
	if err != nil {
		s.Fatal(err)
	}
	name := strings.ReplaceAll(s.index, "-", "_")
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_, _ = s.sh("daemon kill KILL; daemon gone")
		_, _ = admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
		_ = admin.Close()
	})
	u.Path = "/" + name
	return u.String()
}

// proxy stands before the index.
func (s *shop) proxy() {
	s.Helper()
	to, err := url.Parse(s.search)
	if err != nil {
		s.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("rolled back")) {
			s.seen.Add(1)
		}
		if f := s.fault.Load(); f != nil && (*f)(w, r, body) {
			return
		}
		pass.ServeHTTP(w, r)
	}))
	s.proxied = server.URL
	s.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		var found map[string]any
		_ = s.ask(http.MethodGet, "/"+s.index+"-*/_settings/index.uuid", "", &found)
		for name := range found {
			_ = s.ask(http.MethodDelete, "/"+name, "", nil)
		}
	})
}

// breaks sets a fault; nil mends it.
func (s *shop) breaks(f fail) {
	if f == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&f)
}

// ask asks the index itself, past the proxy.
func (s *shop) ask(method, path, body string, into any) error {
	req, err := http.NewRequest(method, s.search+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s", method, path, res.Status, text)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

func (s *shop) asked(method, path, body string) {
	s.Helper()
	if err := s.ask(method, path, body, nil); err != nil {
		s.Fatal(err)
	}
}

func (s *shop) exec(query string, args ...any) {
	s.Helper()
	if _, err := s.db.Exec(query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// one reads one value as text.
func (s *shop) one(query string) string {
	s.Helper()
	var v sql.NullString
	if err := s.db.QueryRow(query).Scan(&v); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return v.String
}

// change changes a product and tells the outbox, in tx. The row is locked before the outbox is told.
func (s *shop) change(tx *sql.Tx, id int, name string, remove bool) error {
	var version int64
	err := tx.QueryRow(`INSERT INTO goods (id, name, version, gone) VALUES ($1, $2, 1, $3) ON CONFLICT (id) DO UPDATE
		SET name = excluded.name, version = goods.version + 1, gone = excluded.gone RETURNING version`, id, name,
		remove).Scan(&version)
	if err != nil {
		return err
	}
	op, doc := "upsert", any(fmt.Sprintf(`{"name":%q}`, name))
	if remove {
		op, doc = "delete", nil
	}
	_, err = tx.Exec(`INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ('search', $1, $2, $3, $4)`,
		fmt.Sprint(id), op, version, doc)
	return err
}

// put changes products in a transaction of their own.
func (s *shop) put(name string, ids ...int) {
	s.Helper()
	tx, err := s.db.Begin()
	if err != nil {
		s.Fatal(err)
	}
	for _, id := range ids {
		if err := s.change(tx, id, name, false); err != nil {
			s.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		s.Fatal(err)
	}
}

func many(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// status is what `pawl project status` says.
type status struct {
	State      string
	Index      string
	Pending    int
	Processing int
	Stuck      int
	Failed     int
	Why        string
}

func (s *shop) status() (st status) {
	s.Helper()
	out := s.must("pawl project status search -o json 2>/dev/null")
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return st
}

// says runs a command until it prints something on its standard output, spaces aside, and ends with an exit code.
func (s *shop) says(command, want string, code int) {
	s.Helper()
	s.until(fmt.Sprintf("code %d sh -c '%s' | tr -d ' \\n'", code, command), want)
}

// wait waits for something, for long.
func (s *shop) wait(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(10 * patience); !cond(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s; %+v", 10*patience, what, s.status())
		}
	}
}

// settled waits until all changes are in the index, or dead.
func (s *shop) settled() {
	s.Helper()
	s.wait("all changes settled", func() bool {
		return s.one(`SELECT count(*) FROM pawl_outbox_status WHERE status <> 'failed'`) == "0"
	})
}

// entry is a document of the index.
type entry struct {
	ID      string `json:"_id"`
	Version int64  `json:"_version"`
	Found   bool   `json:"found"`
	Source  struct {
		Name string `json:"name"`
	} `json:"_source"`
}

// entries returns the documents with these ids.
func (s *shop) entries(ids []int) ([]entry, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprint(id)
	}
	body, _ := json.Marshal(map[string]any{"ids": texts})
	var answer struct{ Docs []entry }
	err := s.ask(http.MethodPost, "/"+s.index+"/_mget", string(body), &answer)
	return answer.Docs, err
}

// equal compares table and index by itself: what there is, versions and contents.
func (s *shop) equal() {
	s.Helper()
	s.asked(http.MethodPost, "/"+s.index+"/_refresh", "")
	rows, err := s.db.Query(`SELECT id, name, version, gone FROM goods ORDER BY id`)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var ids []int
	var want []entry
	there := 0
	for rows.Next() {
		var id int
		var e entry
		var gone bool
		if err := rows.Scan(&id, &e.Source.Name, &e.Version, &gone); err != nil {
			s.Fatal(err)
		}
		if e.Found, e.ID = !gone, fmt.Sprint(id); gone {
			e.Version, e.Source.Name = 0, ""
		} else {
			there++
		}
		ids, want = append(ids, id), append(want, e)
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
	wrong := 0
	got, err := s.entries(ids)
	if err != nil {
		s.Fatal(err)
	}
	for i := range want {
		if !want[i].Found && !got[i].Found {
			continue
		}
		if got[i] != want[i] {
			if wrong++; wrong < 5 {
				s.Errorf("the index has %+v; the table has %+v", got[i], want[i])
			}
		}
	}
	var n struct{ Count int }
	if err := s.ask(http.MethodGet, "/"+s.index+"/_count", "", &n); err != nil || n.Count != there || wrong > 0 {
		s.Errorf("%d documents are wrong; the index has %d, the table %d; %v", wrong, n.Count, there, err)
	}
	if n := s.seen.Load(); n > 0 {
		s.Errorf("%d requests had a document that was rolled back", n)
	}
}

// refuse answers a bulk request with a failure of each item.
func refuse(w http.ResponseWriter, body []byte, status int, kind string) {
	var items []any
	for line := range bytes.Lines(body) {
		var a map[string]struct {
			ID string `json:"_id"`
		}
		if json.Unmarshal(line, &a) != nil {
			continue // a document whose members are no objects
		}
		if id := cmp.Or(a["index"].ID, a["delete"].ID); id != "" {
			items = append(items, map[string]any{"index": map[string]any{"_id": id, "status": status,
				"error": map[string]any{"type": kind, "reason": "broken on purpose"}}})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": true, "items": items})
}

// holds lets n bulk requests pass, and holds those that follow until they are released.
func (s *shop) holds(n int64) (release func()) {
	var passed atomic.Int64
	released := make(chan struct{})
	s.breaks(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Path == "/_bulk" && passed.Add(1) > n {
			<-released
		}
		return false
	})
	release = sync.OnceFunc(func() { s.breaks(nil); close(released) })
	s.Cleanup(release) // before the proxy is closed, which waits for its requests
	return release
}

// cut lets a request through and cuts its answer.
func (s *shop) cut(w http.ResponseWriter, r *http.Request, body []byte) bool {
	req, err := http.NewRequest(r.Method, s.search+r.URL.String(), bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}
	panic(http.ErrAbortHandler)
}
