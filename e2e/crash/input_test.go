//go:build linux

package crash

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestBrokenLines sends JSON lines of which one is bad, in many ways: what came
// before is stored, nothing after it, and --skip-bad goes on.
func TestBrokenLines(t *testing.T) {
	beside(t, 45)
	onEachStore(t, func(t *testing.T, s *site) {
		for name, line := range map[string]string{
			"cut off":        `{"body":"x`,
			"no object":      `[1,2]`,
			"garbage":        `hello`,
			"unknown field":  `{"bodi":"x"}`,
			"given twice":    `{"body":"x","body":"y"}`,
			"two objects":    `{"body":"x"}{"body":"y"}`,
			"invalid UTF-8":  "{\"body\":\"a\xffb\"}",
			"raw NUL":        "{\"body\":\"a\x00b\"}",
			"half character": `{"body":"\ud800"}`,
			"NUL in an id":   `{"id":"a\u0000b","body":"x"}`,
			"bad topic":      `{"topic":"no spaces","body":"x"}`,
			"priority 101":   `{"priority":101,"body":"x"}`,
			"priority 1e99":  `{"priority":1e99,"body":"x"}`,
			"empty key":      `{"key":"","body":"x"}`,
			"bad base64":     `{"body_base64":"*"}`,
			"bad time":       `{"not_before":"tomorrow","body":"x"}`,
			"endless delay":  `{"delay_seconds":1e10,"body":"x"}`,
			"too deep":       `{"body":` + strings.Repeat("[", 100_000) + `}`,
			"long key":       `{"key":"` + strings.Repeat("k", 2000) + `","body":"x"}`,
			"too many": `{"headers":{` + strings.TrimSuffix(strings.Repeat(`"h":"v",`, 500),
				",") + `},"body":"x"}`,
			"body of 17 MB":   `{"body":"` + strings.Repeat("x", 17<<20) + `"}`,
			"no end, no line": `{"body":"` + strings.Repeat("x", 1<<20),
		} {
			t.Run(name, func(t *testing.T) { brokenLine(t, s, line) })
		}
	})
}

func brokenLine(t *testing.T, s *site, bad string) {
	topic := "lines"
	before := s.topic(t, topic).AppendedTotal
	lines := `{"body":"one"}` + "\n" + `{"body":"two"}` + "\n" + bad + "\n" + `{"body":"four"}` + "\n"
	r := s.run(t, strings.NewReader(lines), "send", topic, "--jsonl")
	clearly(t, r, []int{codeFailure, codeUsage, codePartly, 4}, "line 3")
	if got := s.topic(t, topic).AppendedTotal - before; got != 2 {
		t.Errorf("%d messages are stored, want the 2 before the bad line: %v", got, r)
	}
	r = s.run(t, strings.NewReader(lines), "send", topic, "--jsonl", "--skip-bad")
	c, err := parseCounted(r.stdout)
	if r.code != codePartly || err != nil || c.Appended != 3 || !strings.Contains(r.stderr, "line 3") {
		t.Errorf("--skip-bad, want exit code %d and 3 appended: %v", codePartly, r)
	}
	if got := s.topic(t, topic).AppendedTotal - before; got != 5 {
		t.Errorf("%d messages are stored, want 5", got)
	}
}

// TestBodies carries bodies through that are no nice text, byte by byte.
func TestBodies(t *testing.T) {
	beside(t, 10)
	onEachStore(t, func(t *testing.T, s *site) {
		const topic = "bodies"
		noise := make([]byte, 1<<20)
		_, _ = rand.Read(noise)
		bodies := map[string][]byte{
			"empty": {}, "nul": []byte("a\x00b\x00"), "broken": []byte("a\xff\xfe\x80b"), "noise": noise,
			"limit": bytes.Repeat([]byte("y"), 16<<20), "escapes": bytes.Repeat([]byte("\"\\\x01\n"), 100_000),
			"number": []byte("12345678901234567890.10"),
		}
		for name, body := range bodies {
			if name == "noise" || name == "nul" {
				line := fmt.Sprintf(`{"id":%q,"body_base64":%q}`, name, base64.StdEncoding.EncodeToString(body))
				s.mustWith(t, strings.NewReader(line), "send", topic, "--jsonl")
				continue
			}
			s.mustWith(t, bytes.NewReader(body), "send", topic, "-", "--id", name)
		}
		s.mustWith(t, strings.NewReader(`{"id":"escaped","key":"k\u0000k","headers":{"h":"a\tb"},"body":"\u0000"}`),
			"send", topic, "--jsonl")
		bodies["escaped"] = []byte{0}
		folder := t.TempDir()
		s.must(t, "work", topic, "--pipe", pipeCommand(folder), "--until-empty")
		lines, err := journal.ReadAll(folder)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, l := range lines {
			if l.What == journal.Start {
				got[l.ID] = l.Body
			}
		}
		for id, body := range bodies {
			want := fmt.Sprintf("%d:%x", len(body), sha256.Sum256(body))
			if text := string(body); len(text) < 100 &&
				strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
				want = text
			}
			if got[id] != want {
				t.Errorf("body %s: got %.100q, want %.100q", id, got[id], want)
			}
		}
		if f := s.topic(t, topic); f.AckedTotal != int64(len(bodies)) || f.open() != 0 {
			t.Errorf("%+v", f)
		}
	})
}

// TestHugeBody sends 50 MB, as a body and as a line: refused by itself, with the
// limit named, and in little memory and time.
func TestHugeBody(t *testing.T) {
	beside(t, 10)
	onEachStore(t, func(t *testing.T, s *site) {
		const topic = "huge"
		huge := func() io.Reader { return io.LimitReader(endless('x'), 50_000_000) }
		r := s.run(t, huge(), "send", topic, "-")
		clearly(t, r, []int{codeUsage}, "16777216")
		line := io.MultiReader(strings.NewReader(`{"body":"before"}`+"\n"+`{"body":"`), huge(),
			strings.NewReader("\"}\n"+`{"body":"after"}`+"\n"))
		r = s.run(t, line, "send", topic, "--jsonl", "--skip-bad")
		if c, err := parseCounted(r.stdout); err != nil || c.Appended != 2 || r.code != codePartly ||
			r.took > 10*time.Second {
			t.Errorf("want exit code 3 and two appended, soon: %v", r)
		}
		r = s.run(t, io.MultiReader(strings.NewReader(`{"body":"before"}`+"\n"), huge()), "send", topic, "--jsonl")
		clearly(t, r, []int{codeFailure, codeUsage, codePartly, 4}, "line 2")
		if got := s.topic(t, topic).AppendedTotal; got != 3 {
			t.Errorf("%d are stored, want 3", got)
		}
	})
}

// endless is one byte again and again.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

// TestOddArguments gives what no store takes as arguments of send.
func TestOddArguments(t *testing.T) {
	beside(t, 10)
	s := sqliteSite(t)
	for name, args := range map[string][]string{
		"topic with a space": {"send", "a b", "x"}, "no topic": {"send"},
		"priority": {"send", "t", "x", "--priority", "101"},
		"key":      {"send", "t", "x", "--key", strings.Repeat("k", 2000)},
		"id":       {"send", "t", "x", "--id", "a\nb"}, "unknown flag": {"send", "t", "x", "--priorty", "1"},
		"unknown verb": {"snd", "t"}, "lease": {"work", "t", "--exec", "true", "--lease", "-1s"},
		"both": {"work", "t", "--exec", "true", "--pipe", "cat"}, "neither": {"work", "t"},
		"invalid header": {"send", "t", "x", "--header", "a=\xff"},
		"concurrency":    {"work", "t", "--exec", "true", "--concurrency", "0"},
	} {
		t.Run(name, func(t *testing.T) { clearly(t, s.run(t, nil, args...), []int{codeUsage}) })
	}
}
