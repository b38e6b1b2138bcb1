package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAPIPage types the tutorial of docs/api.md.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not there")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	typeTutorial(t, "../docs/api.md", strings.NewReplacer("127.0.0.1:8470", address), "", `"action":"acked"`,
		`"action":"dead"`, `"operation_id"`, `"receipts"`, `the server is being moved`)
}

// TestSchedulesPage types the tutorial of docs/schedules.md, with a site to crawl.
func TestSchedulesPage(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>Crawled by schedule</title>")
	}))
	defer site.Close()
	typeTutorial(t, "../docs/schedules.md", strings.NewReplacer("http://127.0.0.1:8080", site.URL),
		"for n in $(seq 150); do [ -s pages.jsonl ] && break; sleep 0.2; done; cat pages.jsonl",
		"2027-03-28T03:00:00+02:00", "2026-01-05T02:30:00+01:00", "3 ticks", "backfill", "manual",
		`"title":"Crawled by schedule"`)
}

// typeTutorial types what a tutorial tells to type, and then the last words, and wants some of what they print.
func typeTutorial(t *testing.T, page string, replace *strings.Replacer, last string, wants ...string) {
	t.Helper()
	all, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, tutorial, _ := strings.Cut(string(all), "## Tutorial")
	tutorial, _, _ = strings.Cut(tutorial, "\n## ")
	var text strings.Builder
	text.WriteString("set -e\ntrap 'kill $! && wait' EXIT\n")
	for i, part := range strings.Split(tutorial, "```") {
		if code, ok := strings.CutPrefix(part, "sh\n"); ok && i%2 == 1 {
			text.WriteString(replace.Replace(code))
		}
	}
	text.WriteString(last)
	c := script(t, text.String())
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "PAWL_LISTEN=off", "TZ=UTC", "COLUMNS=1000")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestPythonClient runs the tests and examples of the client against the built binary.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	testClient(t, "python3", "cd ../clients/python && exec python3 -B -W ignore::ResourceWarning test_pawl.py")
}

// TestTypeScriptClient does the same. The compiler is fetched at the first run, and comes from a cache later.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../clients/typescript")); err != nil {
		t.Fatal(err)
	}
	testClient(t, "npm", "cd '"+dir+"' && rm -rf node_modules dist && "+
		"npm ci --prefer-offline --no-audit --no-fund --loglevel=error --fetch-timeout=20000 --fetch-retries=5 && npm test")
}

func testClient(t *testing.T, tool, tests string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skip(tool + " is not there")
	}
	binary, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	c := script(t, tests)
	c.Env = append(os.Environ(), "PAWL_BINARY="+binary)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
