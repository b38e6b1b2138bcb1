package project

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
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
	_ "modernc.org/sqlite"             // registers "sqlite"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// address returns where a server of the tests is. Without one a test is skipped, visibly; where it is
// required, it fails.
func address(t *testing.T, name, of string) string {
	t.Helper()
	at := os.Getenv(name)
	if at == "" && strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), of) {
		t.Fatalf("%s is not set, and PAWL_TEST_REQUIRE asks for it", name)
	}
	if at == "" {
		t.Skipf("%s is not set: dev/services run -- go test ./pipeline/project", name)
	}
	return at
}

func unique() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return "t" + hex.EncodeToString(b[:])
}

// rig is a database, an index behind a proxy, and as many daemons as a test starts.
type rig struct {
	t      *testing.T
	url    string // of the store
	db     *sql.DB
	proxy  *proxy
	alias  string
	values map[string]any // of the section
	store  store.Store
	pg     bool
}

const table = `CREATE TABLE products (id integer primary key, name text, version bigint)`

// onBoth runs a test on PostgreSQL and on SQLite.
func onBoth(t *testing.T, test func(*rig)) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(newRig(t, true)) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(newRig(t, false)) })
}

func newRig(t *testing.T, pg bool) *rig {
	t.Helper()
	r := &rig{t: t, alias: unique(), pg: pg}
	r.proxy = newProxy(t, address(t, "PAWL_TEST_OPENSEARCH", "opensearch"), r.alias)
	driver, dsn := "sqlite", ""
	doc := "json_object('name', name)"
	if pg {
		driver, doc = "pgx", "json_build_object('name', name)"
		r.url = freshDatabase(t, address(t, "PAWL_TEST_POSTGRES", "postgres"))
		dsn = r.url
	} else {
		file := filepath.Join(t.TempDir(), "app.db")
		r.url, dsn = "sqlite:"+file, "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate"
	}
	r.store = r.open()
	db, err := sql.Open(driver, dsn)
	r.ok(err)
	t.Cleanup(func() { _ = db.Close() })
	r.db = db
	r.exec(table)
	if _, err := r.outbox().InstallOutbox(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink := pipeline.NewSection(fields()[2].Fields, map[string]any{"url": r.proxy.url, "index": r.alias})
	backoff := map[string]any{"base": 20 * time.Millisecond, "max": 200 * time.Millisecond}
	source := map[string]any{"table": "products", "key": "id", "doc_id": "id", "version": "version", "doc": doc}
	r.values = map[string]any{
		"projection": r.alias, "sink": sink, "batch_size": int64(500), "batch_bytes": int64(5 << 20),
		"batch_wait":  10 * time.Millisecond,
		"concurrency": int64(2), "lease_seconds": int64(2), "poll_interval": 50 * time.Millisecond,
		"max_processing_seconds": int64(20),
		"max_attempts":           int64(4), "backoff": object("backoff", backoff), "sla_seconds": int64(60),
		"gc_deletes": 24 * time.Hour,
		"source":     object("source", source),
	}
	return r
}

// object makes a section of a key that is an object.
func object(name string, values map[string]any) pipeline.Section {
	for _, f := range fields() {
		if f.Name == name {
			return pipeline.NewSection(f.Fields, values)
		}
	}
	panic("no field " + name)
}

func freshDatabase(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	name := unique()
	if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
		_ = admin.Close()
	})
	u.Path = "/" + name
	return u.String()
}

func (r *rig) open() store.Store {
	r.t.Helper()
	s, err := open.Open(r.t.Context(), open.Config{URL: r.url, AutoMigrate: true})
	r.ok(err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) exec(query string, args ...any) {
	r.t.Helper()
	_, err := r.db.Exec(query, args...)
	r.ok(err)
}

func (r *rig) outbox() Outbox {
	o, ok := store.As[Outbox](r.store)
	if !ok {
		r.t.Fatal("the store has no outbox")
	}
	return o
}

func (r *rig) section() pipeline.Section { return pipeline.NewSection(fields(), r.values) }

// daemon starts a process with the pipeline over a store of its own, and returns it with what ends it.
func (r *rig) daemon() (p *pipeline.Pipeline, stop func()) {
	r.t.Helper()
	matrix, err := policy.NewMatrix(nil, rules()...)
	r.ok(err)
	s := r.open()
	p, err = build(r.t.Context(), pipeline.Env{
		Name: "search", Section: r.section(), Store: s, Logger: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
		Owner: "test/" + unique(), Policy: matrix,
	})
	r.ok(err)
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{p.Stages[0].Topic}, Policy: matrix,
		Logger: slog.New(slog.DiscardHandler), PollMax: 50 * time.Millisecond})
	r.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Run(ctx) })
	wg.Go(func() { _ = p.Run(ctx) })
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); wg.Wait() }) }
	r.t.Cleanup(stop)
	return p, stop
}

// projection is what a command has.
func (r *rig) projection() *projection {
	r.t.Helper()
	p, err := newProjection("search", r.section())
	r.ok(err)
	p.policy, err = policy.NewMatrix(nil, rules()...)
	r.ok(err)
	r.ok(p.use(r.store))
	return p
}

// until waits for a condition.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(90 * time.Second); !cond(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			why := r.one(
				`SELECT max(status || ' ' || coalesce(last_error, 'untried') || ' ' || coalesce(CAST(next_retry_at AS text), '')) FROM pawl_outbox_status`)
			r.t.Fatalf("not within 90 s: %s; %+v; %s", what, r.standing(), why)
		}
	}
}

func (r *rig) standing() outboxState {
	r.t.Helper()
	s, err := r.projection().readOutbox(r.t.Context())
	r.ok(err)
	return s
}

// drained waits until nothing is under way.
func (r *rig) drained() {
	r.t.Helper()
	r.until("all changes settled", func() bool { s := r.standing(); return s.pending+s.processing == 0 })
}

// index returns the documents that are searched: "version document" by id.
func (r *rig) index() map[string]string {
	r.t.Helper()
	var answer struct {
		Hits struct {
			Hits []document `json:"hits"`
		} `json:"hits"`
	}
	s := r.direct()
	r.ok(s.refresh(r.t.Context(), r.alias))
	r.ok(s.call(r.t.Context(), http.MethodGet, "/"+r.alias+"/_search?version=true&size=10000", nil, &answer))
	all := map[string]string{}
	for _, h := range answer.Hits.Hits {
		all[h.ID] = string(h.Source)
	}
	return all
}

// direct speaks with the index without the proxy.
func (r *rig) direct() *search {
	return &search{base: r.proxy.to, client: http.DefaultClient}
}

// put changes a row and its document in one transaction.
func (r *rig) put(id int, name string, version int) {
	r.t.Helper()
	tx, err := r.db.Begin()
	r.ok(err)
	_, err = tx.Exec(
		`INSERT INTO products (id, name, version) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version`,
		id, name, version)
	r.ok(err)
	_, err = tx.Exec(
		`INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ($1, CAST(CAST($2 AS bigint) AS text), 'upsert', $3, $4)`,
		r.alias, id, version, `{"name":"`+name+`"}`)
	r.ok(err)
	r.ok(tx.Commit())
}

// drop deletes a row and its document.
func (r *rig) drop(id, version int) {
	r.t.Helper()
	tx, err := r.db.Begin()
	r.ok(err)
	_, err = tx.Exec(`DELETE FROM products WHERE id = $1`, id)
	r.ok(err)
	_, err = tx.Exec(
		`INSERT INTO pawl_outbox (projection, doc_id, op, version) VALUES ($1, CAST(CAST($2 AS bigint) AS text), 'delete', $3)`,
		r.alias, id, version)
	r.ok(err)
	r.ok(tx.Commit())
}

// equal compares the table with the index.
func (r *rig) equal() {
	r.t.Helper()
	c, err := verifier{r.projection()}.compare(r.t.Context(), r.alias, 0, func(int64) {})
	r.ok(err)
	if c.Verdict != equal {
		r.t.Errorf("%+v; the index has %v", c, r.index())
	}
}

// one reads one value of a view as text.
func (r *rig) one(query string, args ...any) string {
	r.t.Helper()
	var v sql.NullString
	r.ok(r.db.QueryRow(query, args...).Scan(&v))
	return v.String
}

// proxy stands before the index and breaks what passes.
type proxy struct {
	url, to string
	bulks   atomic.Int64
	// fault, if set, is asked about every bulk request; it answers and returns true, or lets it pass.
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request, body []byte) bool]
}

func newProxy(t *testing.T, to, alias string) *proxy {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: to}
	pass := httputil.NewSingleHostReverseProxy(u)
	pass.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.URL.Path == "/_bulk" {
			p.bulks.Add(1)
		}
		if f := p.fault.Load(); f != nil && (*f)(w, r, body) {
			return
		}
		pass.ServeHTTP(w, r)
	}))
	p.url = server.URL
	t.Cleanup(func() {
		server.Close()
		s := &search{base: to, client: http.DefaultClient}
		names, _ := s.named(context.Background(), alias)
		for _, n := range names {
			_ = s.remove(context.Background(), n)
		}
	})
	return p
}

// breaks sets a fault; nil mends it.
func (p *proxy) breaks(f func(w http.ResponseWriter, r *http.Request, body []byte) bool) {
	if f == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&f)
}

func bulk(r *http.Request) bool { return r.URL.Path == "/_bulk" }

// refuseItems answers a bulk request with one failure for each item.
func refuseItems(w http.ResponseWriter, body []byte, status int, kind string) {
	var items []any
	for line := range bytes.Lines(body) {
		var a map[string]struct {
			ID string `json:"_id"`
		}
		if json.Unmarshal(line, &a) != nil {
			continue
		}
		for _, verb := range []string{"index", "delete"} {
			if about, ok := a[verb]; ok && about.ID != "" {
				items = append(items, map[string]any{verb: map[string]any{"_id": about.ID, "status": status,
					"error": map[string]any{"type": kind, "reason": "broken on purpose"}}})
			}
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": true, "items": items})
}
