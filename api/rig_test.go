package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// tokens are one of each role; mail is the topic of those that are for one.
var tokens = []api.Token{
	{Name: "shop", Secret: "secret-producer", Role: api.Producer, Topics: []string{"mail", "orders.*"}},
	{Name: "py", Secret: "secret-worker", Role: api.Worker, Topics: []string{"mail"}},
	{Name: "all", Secret: "secret-worker-all", Role: api.Worker},
	{Name: "view", Secret: "secret-viewer", Role: api.Viewer},
	{Name: "ops", Secret: "secret-operator", Role: api.Operator},
	{Name: "root", Secret: "secret-admin", Role: api.Admin},
}

// door is a served API.
type door struct {
	t     testing.TB
	url   string
	store store.Store
	token string
}

func serveStore(t testing.TB, s store.Store, c api.Config) *door {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	a, err := api.New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := a.Server()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); a.Close() })
	return &door{t, "http://" + l.Addr().String() + c.BasePath, s, ""}
}

func openStore(t testing.TB, url string) store.Store {
	t.Helper()
	s, err := open.Open(context.Background(), open.Config{URL: url, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// onStores runs a test on every store; name makes topics of its own where a server is shared.
func onStores(t *testing.T, c api.Config, run func(t *testing.T, d *door)) {
	for _, kind := range []string{"memory", "sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := "memory:"
			switch kind {
			case "sqlite":
				url = "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")
			case "postgres":
				url = postgresURL(t)
			}
			run(t, serveStore(t, openStore(t, url), c))
		})
	}
}

// postgresURL is a schema of the test's own.
func postgresURL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: see dev/services")
	}
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	url += sep + fmt.Sprintf("pawl_schema=api_%d", time.Now().UnixNano())
	t.Cleanup(func() {
		s, err := open.Open(context.Background(), open.Config{URL: url, NoCheck: true})
		if err != nil {
			return
		}
		if m, ok := store.As[store.Migrator](s); ok {
			_, _ = m.MigrateDown(context.Background(), 0)
		}
		_ = s.Close()
	})
	return url
}

// as is the door for another caller.
func (d *door) as(token string) *door {
	other := *d
	other.token = token
	return &other
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// into reads the answer as JSON.
func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
}

// ask makes a request; headers are "Name: value".
func (d *door) ask(method, path, body string, headers ...string) answer {
	d.t.Helper()
	q, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if d.token != "" {
		q.Header.Set("Authorization", "Bearer "+d.token)
	}
	if method == http.MethodPost {
		q.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			q.Host = value
		case value == "":
			q.Header.Del(name)
		default:
			q.Header.Set(name, value)
		}
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{r.StatusCode, r.Header, b}
}

func (d *door) post(path, body string, headers ...string) answer {
	d.t.Helper()
	return d.ask(http.MethodPost, path, body, headers...)
}

func (d *door) get(path string, headers ...string) answer {
	d.t.Helper()
	return d.ask(http.MethodGet, path, "", headers...)
}

// want fails unless a request got a status; problems are in their form.
func (d *door) want(status int, a answer) answer {
	d.t.Helper()
	if a.status != status {
		d.t.Fatalf("got %s, want %d", a, status)
	}
	if status >= 400 {
		var p api.Problem
		a.into(d.t, &p)
		if a.header.Get("Content-Type") != "application/problem+json" || p.Status != status || p.Title == "" ||
			p.Detail == "" || p.Type == "" {
			d.t.Fatalf("not a problem: %s %s", a.header.Get("Content-Type"), a)
		}
	}
	return a
}

type delivery struct {
	ID, Topic, Token, Body string
	Key                    *string
	Attempt, Priority      int
	Headers                map[string]string
	BodyBase64             string  `json:"body_base64"`
	LeaseSeconds           float64 `json:"lease_seconds"`
	DeadlineSeconds        float64 `json:"deadline_seconds"`
	EnqueuedAt             string  `json:"enqueued_at"`
}

func (d *door) lease(body string) []delivery {
	d.t.Helper()
	var got struct{ Deliveries []delivery }
	d.want(200, d.post("/v1/lease", body)).into(d.t, &got)
	return got.Deliveries
}

type result struct {
	Token, Action, Rule, Error string
	NextAt                     *time.Time `json:"next_at"`
}

func (d *door) settle(body string, headers ...string) []result {
	d.t.Helper()
	var got struct{ Results []result }
	d.want(200, d.post("/v1/settle", body, headers...)).into(d.t, &got)
	return got.Results
}

func fieldsOf(t testing.TB, a answer) (names []string) {
	t.Helper()
	var p api.Problem
	a.into(t, &p)
	for _, f := range p.Fields {
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return names
}

// with is the door for a test.
func (d *door) with(t *testing.T) *door {
	other := *d
	other.t = t
	return &other
}
