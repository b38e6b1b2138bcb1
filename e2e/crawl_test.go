//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCrawlPage does what the tutorial of docs/pipelines/crawl.md says, and its chapter about trouble.
func TestCrawlPage(t *testing.T) {
	t.Parallel()
	in, site, tried := newIncident(t, ""), freeAddress(t), 0
	_, port, _ := strings.Cut(site, ":")
	blocks := sections(t, "../docs/pipelines/crawl.md")["Tutorial"]
	for i, b := range blocks {
		file := fileName.FindStringSubmatch(b.before)
		typed := strings.NewReplacer("127.0.0.1:8000", site, "127.0.0.1 8000", "127.0.0.1 "+port)
		b.code = typed.Replace(b.code)
		switch {
		case file != nil:
			in.write(file[1], b.code)
		case strings.Contains(b.before, "In a terminal of its own"):
			aside(t, in.dir, b.code)
			in.until("curl -sS http://"+site+"/", "Shop")
		case b.language == "sh" && i+1 < len(blocks) && blocks[i+1].language == "text":
			in.do(b, typed.Replace(blocks[i+1].code), false)
			tried++
		case b.language == "sh":
			in.must(b.code)
		}
	}
	if tried < 5 {
		t.Errorf("only %d commands were found", tried)
	}
	// A site that refuses everything, and who looks for the reason.
	if out, code := in.sh("pawl crawl http://" + site + "/gone.html --allow-private -q"); code != 3 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	in.carry(sections(t, "../docs/pipelines/crawl.md")["It stands still, or is refused everywhere"], false)
}

// TestCrawlSurvivesKills: a crawl that is killed again and again stores every page once.
func TestCrawlSurvivesKills(t *testing.T) {
	const pages = 1500
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil && r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		time.Sleep(time.Millisecond)
		w.Header().Set("Content-Type", "text/html")
		for k := range 8 {
			_, _ = fmt.Fprintf(w, `<a href="/p%d">x</a>`, (n*3+k)%pages)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	run := func(kill time.Duration) (code int, out []byte) {
		c := exec.Command("pawl", "crawl", site.URL+"/", "--allow-private", "--resume", "--per-host", "8", "-o", "json")
		c.Dir = dir
		if kill > 0 {
			time.AfterFunc(kill, func() { _ = c.Process.Kill() })
		}
		out, err := c.Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return failed.ExitCode(), out
		} else if err != nil {
			t.Fatal(err)
		}
		return 0, out
	}
	for i := range 5 {
		run(time.Duration(150+60*i) * time.Millisecond)
	}
	code, out := run(0)
	var sum struct{ Discovered, Stored, Duplicate, Excluded, Dead int64 }
	if err := json.Unmarshal(out, &sum); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if sum.Stored != pages+1 || sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead || sum.Dead != 0 {
		t.Errorf("the account: %+v", sum)
	}
	f, err := os.Open(filepath.Join(dir, "pages.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	seen := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var page struct{ URL string }
		if err := json.Unmarshal(lines.Bytes(), &page); err != nil || seen[page.URL] {
			t.Fatalf("%s: %v, twice: %v", lines.Text(), err, seen[page.URL])
		}
		seen[page.URL] = true
	}
	if len(seen) != pages+1 {
		t.Errorf("%d pages in the file, want %d; %d requests", len(seen), pages+1, asked.Load())
	}
}
