//go:build unix

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestLoggingPage does what docs/logging.md says: the smoke test, the canary drill on a real Redis, and the three steps
// back.
func TestLoggingPage(t *testing.T) {
	redis := os.Getenv("PAWL_TEST_REDIS")
	if redis == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "redis") {
			t.Fatal("PAWL_TEST_REDIS is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_REDIS is not set: no server to test against")
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("there is no redis-cli on this machine")
	}
	at, err := url.Parse(redis)
	if err != nil {
		t.Fatal(err)
	}
	in, tried := newIncident(t, ""), 0
	stream := fmt.Sprintf("canary-%d", time.Now().UnixNano())
	here := strings.NewReplacer("127.0.0.1:6379", at.Host, "canary", stream)
	t.Cleanup(func() {
		in.sh("kill $(cat one.pid two.pid); redis-cli -u " + redis + " DEL " + stream)
	})
	page := sections(t, "../docs/logging.md")
	for _, title := range []string{"Smoke test", "Canary", "Roll back"} {
		for i, b := range page[title] {
			b.code = here.Replace(b.code)
			file := fileName.FindStringSubmatch(b.before)
			switch {
			case file != nil:
				in.write(file[1], b.code)
			case b.language == "sh" && i+1 < len(page[title]) && page[title][i+1].language == "text":
				in.until(b.code, page[title][i+1].code)
				tried++
			case b.language == "sh":
				in.must(b.code)
				tried++
			}
		}
	}
	if tried < 9 {
		t.Errorf("only %d commands were found", tried)
	}
}
