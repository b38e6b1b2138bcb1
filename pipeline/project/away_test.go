package project

import (
	"bytes"
	"database/sql"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// A server whose certificate nobody but ca_file vouches for is talked to, with the user's name; without ca_file it is
// not.
func TestCAFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "shop" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"products-000001":{}}`))
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of handshakes that fail
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, text := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "text.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	for file, content := range map[string][]byte{ca: pem.EncodeToMemory(block), text: []byte("no certificate")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ file, want string }{
		"given":          {ca, ""},
		"not given":      {"", "certificate"},
		"not there":      {filepath.Join(dir, "none.pem"), "none.pem"},
		"no certificate": {text, "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"url": server.URL, "username": "shop", "password": "secret", "index": "products"}
			if tt.file != "" {
				values["ca_file"] = tt.file
			}
			s, err := newSearch(pipeline.NewSection(fields()[2].Fields, values))
			var found []string
			if err == nil {
				found, err = s.behind(t.Context(), "products")
			}
			switch {
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want an error with %q", err, tt.want)
				}
			case err != nil || len(found) != 1:
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// The log says, once, that the index does not answer, before there was any change to write. It said nothing.
func TestIndexThatNeverAnsweredIsInTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	p := r.projection()
	var said bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&said, nil))
	base := p.search.base
	p.search.base = "http://127.0.0.1:1"
	p.look(t.Context())
	p.look(t.Context())
	if text := said.String(); strings.Count(text, "the search index does not answer") != 1 ||
		!strings.Contains(text, "connection refused") {
		t.Error(text)
	}
	p.search.base = base
	p.look(t.Context())
	p.look(t.Context())
	if text := said.String(); strings.Count(text, "the search index answers again") != 1 {
		t.Error(text)
	}
}

// The database goes away under the daemon, and comes back: health names it meanwhile, and nothing is lost.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, true)
	r.db.SetMaxOpenConns(1) // the application's session stays
	admin, err := sql.Open("pgx", address(t, "PAWL_TEST_POSTGRES", "postgres"))
	r.ok(err)
	t.Cleanup(func() { _ = admin.Close() })
	name := r.one(`SELECT current_database()`)
	p, _ := r.daemon()
	id := 0
	put := func() {
		for range 20 {
			id++
			r.put(id, "x", 1)
		}
	}
	end := func() {
		r.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`)
	}
	for range 20 { // its sessions end in the middle of whatever they do
		put()
		end()
		time.Sleep(50 * time.Millisecond)
	}
	ok := func(what string) bool {
		about, _ := p.Health(t.Context()).Details[what].(map[string]any)
		return about["ok"] == true
	}
	_, err = admin.ExecContext(t.Context(), "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	r.ok(err)
	end()
	put()
	r.until("health names the database", func() bool {
		return !ok("database") && strings.HasPrefix(p.Health(t.Context()).Degraded, "the database does not answer")
	})
	if !ok("search") {
		t.Errorf("health says that the search index is away, too: %+v", p.Health(t.Context()))
	}
	_, err = admin.ExecContext(t.Context(), "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
	r.ok(err)
	put()
	r.until("health is well again", func() bool { return ok("database") })
	r.until("all is settled", func() bool { return r.one(`SELECT count(*) FROM pawl_outbox_status`) == "0" })
	r.store = r.open()
	r.equal()
	if n := len(r.index()); n != id {
		t.Errorf("%d documents, want %d", n, id)
	}
}
