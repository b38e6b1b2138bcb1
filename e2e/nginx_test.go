package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNginxPage serves the API behind nginx with the block of docs/deploy.md: a long poll gets what is appended
// meanwhile, a large append passes, events stream, and the console logs in. Without tokens nothing passes.
func TestNginxPage(t *testing.T) {
	t.Parallel()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not there")
	}
	front := behindNginx(t, nginx, "  tokens:\n    - {name: w, token: worker-secret, role: worker}\n"+
		"    - {name: o, token: operator-secret, role: operator}\n")
	ask := func(method, path, secret, kind, body string) (status int, header http.Header, answer io.Reader) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, front+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		} else {
			r.Header.Set("Origin", strings.TrimSuffix(front, "/pawl"))
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Body.Close() })
		return a.StatusCode, a.Header, a.Body
	}
	leased := make(chan string)
	go func() {
		_, _, body := ask("POST", "/v1/lease", "worker-secret", "application/json", `{"topics":["mail"],"wait_seconds":50}`)
		text, _ := io.ReadAll(body)
		leased <- string(text)
	}()
	status, _, events := ask("GET", "/v1/events", "operator-secret", "", "")
	if first := make([]byte, 1); status != http.StatusOK {
		t.Errorf("events: %d", status)
	} else if _, err := events.Read(first); err != nil || first[0] != ':' {
		t.Errorf("the stream begins with %q, %v", first, err)
	}
	large := strings.Repeat("x", 4<<20)
	if status, _, _ := ask("POST", "/v1/topics/mail/messages", "worker-secret", "text/plain", large); status !=
		http.StatusCreated {
		t.Errorf("a large append: %d", status)
	}
	if got := <-leased; !strings.Contains(got, large) {
		t.Errorf("the poll got %.300s", got)
	}
	login := url.Values{"token": {"operator-secret"}, "back": {"/pawl/console/"}}.Encode()
	status, header, _ := ask("POST", "/console/login", "", "application/x-www-form-urlencoded", login)
	if status != http.StatusSeeOther || header.Get("Set-Cookie") == "" || header.Get("Location") != "/pawl/console/" {
		t.Errorf("login: %d, on to %q", status, header.Get("Location"))
	}
	front = behindNginx(t, nginx, "")
	if status, _, _ := ask("GET", "/v1/topics", "any", "", ""); status != http.StatusForbidden {
		t.Errorf("without tokens: %d", status)
	}
}

// behindNginx serves the API, and nginx before it with the block of docs/deploy.md. It returns where both are reached.
func behindNginx(t *testing.T, nginx, access string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```nginx\n")
	block, _, _ = strings.Cut(block, "```")
	dir, own, front := t.TempDir(), freeAddress(t), freeAddress(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp.WriteString(kind + "_temp_path " + at(kind) + ";\n")
	}
	for name, text := range map[string]string{
		"pawl.yaml": "store: \"sqlite:" + at("pawl.db") + "\"\nconsole: {}\napi:\n  listen: " + own +
			"\n  base_path: /pawl\n" + access,
		"nginx.conf": "daemon off; pid " + at("pid") + "; error_log stderr;\nevents {}\nhttp { access_log off;\n" +
			temp.String() + "server { listen " + front + ";\n" + strings.Replace(block, "127.0.0.1:8470", own, 1) + "}}\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runBeside(t, exec.Command("pawl", "api", "--config", at("pawl.yaml")))
	runBeside(t, exec.Command(nginx, "-c", at("nginx.conf")))
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get("http://" + front + "/pawl/v1/openapi.json") //nolint:gosec // of this test
		if err == nil {
			_ = r.Body.Close()
		}
		if err == nil && r.StatusCode < http.StatusInternalServerError {
			return "http://" + front + "/pawl"
		}
		if time.Now().After(end) {
			t.Fatal("nginx or the API does not answer", err)
		}
	}
}

// runBeside runs a process until the test ends.
func runBeside(t *testing.T, c *exec.Cmd) {
	t.Helper()
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s", &said)
		}
	})
}
