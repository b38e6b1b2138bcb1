//go:build unix

package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestConvertPage does what the tutorial of docs/pipelines/convert.md says.
func TestConvertPage(t *testing.T) {
	t.Parallel()
	in, server, tried := newIncident(t, ""), freeAddress(t), 0
	blocks := sections(t, "../docs/pipelines/convert.md")["Tutorial"]
	for i, b := range blocks {
		b.code = strings.ReplaceAll(b.code, "127.0.0.1:9000", server)
		switch file := fileName.FindStringSubmatch(b.before); {
		case file != nil:
			in.write(file[1], b.code)
		case strings.Contains(b.before, "In a terminal of its own"):
			aside(t, in.dir, b.code)
		case b.language == "sh":
			in.until(b.code, blocks[i+1].code)
			tried++
		}
	}
	if tried < 4 {
		t.Errorf("only %d commands were found", tried)
	}
}

// A run that is killed again and again has a whole state.json at every moment, and pays nothing twice but what was in
// flight. PAWL_SOAK makes it long: more documents and kills, and a server that is as slow and bad as it is by itself.
func TestConvertSurvivesKills(t *testing.T) {
	t.Parallel()
	kills, files, set, flags := 3, 50, "deep_nested",
		" --latency-mean 30ms --latency-stddev 5ms --failure-rate 0 --rate-limit 0.1"
	pause := func() time.Duration { return 400 * time.Millisecond }
	if os.Getenv("PAWL_SOAK") != "" {
		kills, files, set, flags = 12, 1000, "1k_mix", ""
		pause = func() time.Duration { return time.Duration(rand.IntN(20_000)) * time.Millisecond }
	}
	in, server := newIncident(t, ""), freeAddress(t)
	in.write("pawl.yaml", "llm: {providers: {local: {base_url: http://"+server+
		"/v1, key: none, max_concurrency: 8, models: {small: {}}}}}\n")
	aside(t, in.dir, "pawl chaos llm -q --listen "+server+flags)
	in.must("pawl chaos files docs --set " + set)
	in.until("curl -sS http://"+server+"/truth", `…"requests":0…`)
	for range kills {
		c := shell(in.T, in.dir, "exec pawl convert docs --out markdown --llm local/small -q --log-level error")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pause())
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
		text, err := os.ReadFile(filepath.Join(in.dir, "markdown", "state.json"))
		if err == nil && !json.Valid(text) {
			t.Fatalf("state.json is not whole: %s", text)
		}
	}
	in.must("unset PAWL_STORE; pawl convert docs --out markdown --llm local/small -q --log-level error")
	var truth struct{ Answered, Repeated int }
	if err := json.Unmarshal([]byte(in.must("curl -sS http://"+server+"/truth")), &truth); err != nil {
		t.Fatal(err)
	}
	if truth.Answered < files || truth.Repeated > kills*8 {
		t.Errorf("%+v", truth)
	}
}
