package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestConsoleOfOnePerson opens the link that `pawl console` prints, and tries to change something.
func TestConsoleOfOnePerson(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	run := func(ctx context.Context, out io.Writer, args ...string) int {
		return Run(ctx, "test", append(args, "--store", url), System{In: &bytes.Buffer{}, Out: out, Err: io.Discard,
			Getenv: func(string) string { return "" }})
	}
	if code := run(t.Context(), io.Discard, "send", "mail", "hello"); code != 0 {
		t.Fatal(code)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, to, "console", "--read-only", "--no-open")
		_ = to.Close()
	}()
	line := make([]byte, 200)
	n, err := from.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	link := strings.TrimSpace(string(line[:n]))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	base, _, _ := strings.Cut(link, "/open")
	page := func(link string) []byte {
		answer, err := client.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Request.URL.Path != "/console/" {
			t.Fatalf("%s %v\n%s", answer.Request.URL, err, body)
		}
		return body
	}
	body := page(link)
	for !bytes.Contains(body, []byte("/console/topics/mail")) { // a busy machine shows what it has in time
		if ctx.Err() != nil {
			t.Fatalf("no topic mail:\n%s", body)
		}
		body = page(base + "/")
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/do/v1/topics/mail/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Sec-Fetch-Site", "same-origin")
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(q)
	if err != nil || answer.StatusCode != http.StatusForbidden {
		t.Error(answer, err)
	}
	_ = answer.Body.Close()
	if q, err = http.NewRequestWithContext(ctx, http.MethodGet, base+"/topics", nil); err != nil {
		t.Fatal(err)
	}
	q.Host = "evil.test" // a name that leads here
	if answer, err = client.Do(q); err != nil || answer.Request.URL.Path != "/console/login" {
		t.Error(answer, err)
	}
	_ = answer.Body.Close()
	client.CloseIdleConnections()
	stop()
	if code := <-ended; code != 0 {
		t.Error("it ended with", code)
	}
}
