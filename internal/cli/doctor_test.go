package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/open"
)

// TestDoctorAsksThePipelines: what stands beside a pipeline, such as Telegram or the search server, is looked at.
func TestDoctorAsksThePipelines(t *testing.T) {
	rightToken := "123456:" + strings.Repeat("A", 35)
	telegram := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/bot"+rightToken+"/getMe" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"ok":false,"error_code":401,"description":"Unauthorized"}`))
			return
		}
		_, _ = w.Write([]byte(`{"ok":true,"result":{"id":1,"username":"b","can_read_all_group_messages":true}}`))
	}))
	defer telegram.Close()
	search := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"orders-000001":{},"orders-000002":{}}`))
	}))
	defer search.Close()
	dir := t.TempDir()
	path, url := filepath.Join(dir, "pawl.yaml"), "sqlite:"+filepath.Join(dir, "pawl.db")
	s, err := open.Open(t.Context(), open.Config{URL: url, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for token, wanted := range map[string]string{
		rightToken:                          "✔ news forward: no problems found",
		"123456:" + strings.Repeat("B", 35): "✖ news Telegram does not accept the bot: ",
	} {
		config := fmt.Sprintf(`store: %s
pipelines:
  news: {kind: forward, api_url: "%s", token: "%s"}
  orders: {kind: project, sink: {url: "%s", index: orders}}
`, url, telegram.URL, token, search.URL)
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		out := &bytes.Buffer{}
		code := Run(t.Context(), "test", []string{"doctor", "--config", path},
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		text := strings.Join(strings.Fields(out.String()), " ")
		if code != exitFound || !strings.Contains(text, wanted) ||
			!strings.Contains(text, "✖ orders the alias orders points to 2 indices") {
			t.Errorf("token %s: ended with %d\n%s", token, code, out)
		}
	}
}
