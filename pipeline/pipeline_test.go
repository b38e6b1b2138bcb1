package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

func TestSectionHasWhatItsFieldsDescribe(t *testing.T) {
	fields := []pipeline.Field{{Name: "url", Type: pipeline.URL}, {Name: "wait", Type: pipeline.Duration},
		{Name: "sink", Type: pipeline.Object}}
	sink := pipeline.NewSection([]pipeline.Field{{Name: "index"}}, map[string]any{"index": "products"})
	s := pipeline.NewSection(fields, map[string]any{"url": "http://localhost", "sink": sink})
	if got := s.Text("url"); got != "http://localhost" {
		t.Errorf("url is %q", got)
	}
	if s.Has("wait") || s.Duration("wait") != 0 {
		t.Error("wait is there, though nobody stated it")
	}
	if got := s.Section("sink").Text("index"); got != "products" {
		t.Errorf("sink.index is %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a key that no field describes did not panic")
		}
	}()
	s.Text("ulr")
}

func TestFatal(t *testing.T) {
	cause := errors.New("token refused")
	if err := pipeline.Fatal(cause); !pipeline.IsFatal(err) || !errors.Is(err, cause) {
		t.Error("Fatal lost its mark or its cause")
	}
	if pipeline.IsFatal(cause) || pipeline.Fatal(nil) != nil {
		t.Error("what nobody marked is fatal")
	}
}

func TestBoard(t *testing.T) {
	show := func(terminal, quiet bool) string {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			in := &pipeline.Invocation{Stderr: &out, Quiet: quiet}
			if terminal {
				in.Show = func(lines []string) { _, _ = fmt.Fprintf(&out, "%q", lines) }
			}
			n := 0
			lines := func() []string { n++; return []string{"first", strings.Repeat("x", n)} }
			b := in.Board(lines, func() string { return "plain" })
			time.Sleep(11 * time.Second)
			b.Stop()
		})
		return out.String()
	}
	if got := show(false, false); got != "plain\n" {
		t.Errorf("without a terminal: %q", got)
	}
	if got := show(true, true); got != "" {
		t.Errorf("with --quiet: %q", got)
	}
	got := show(true, false)
	if !strings.HasPrefix(got, `["first" "x"]["first" "xx"]`) || !strings.HasSuffix(got, `x"][]`) {
		t.Errorf("on a terminal: %.80q", got)
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"docs/a.md": "docs/a.md", "it's": `'it'\''s'`, "a b": "'a b'", "postgres://h/d?x=1&y=2": "'postgres://h/d?x=1&y=2'",
	} {
		if got := pipeline.ShellWord(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// An address with a port that no server can have is refused before anything connects to it.
func TestAddressesHavePortsThatExist(t *testing.T) {
	for address, good := range map[string]bool{
		"http://h": true, "https://h:9200/x": true, "http://h:65535": true, "http://h:65536": false,
		"h:9200": false, "ftp://h": false, "http://": false,
	} {
		if err := pipeline.CheckHTTP(address); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, good := range map[string]bool{
		"http://h": true, "https://h:9200/x/": true, "h:9200": false, "http://h/?pretty": false, "http://h/#x": false,
		"http://h?": false,
	} {
		if err := pipeline.CheckBase(address); (err == nil) != good {
			t.Errorf("base %s: %v", address, err)
		}
	}
	for address, good := range map[string]bool{
		"127.0.0.1:9120": true, ":0": true, ":http": true, "127.0.0.1:99999": false, "127.0.0.1": false,
	} {
		if err := pipeline.CheckAddress(address); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestSome(t *testing.T) {
	for n, want := range map[int]string{0: "0 requests are", 1: "1 request is", 2: "2 requests are"} {
		if got := pipeline.Some(n, "request is", "requests are"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
