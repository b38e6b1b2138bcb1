//go:build unix

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/recordings anew")

// masks are what differs from one run to the next.
var masks = []struct{ what, mask string }{
	{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`, "TIME"},
	{`\b\d\d:\d\d:\d\d(\.\d+)?\b`, "TIME"},
	{`(?m)^(.) +(disk|files) .*$`, "MACHINE"},
	{`(?m)^- +convert .*\n +→ .*\n`, ""}, // programs that this machine lacks
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "NUMBER"},
	{`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ns|µs|ms|s|m|h)\b`, "LENGTH"},
	{`\S+@\S+`, "SOMEBODY"},
	{`\b[\w.-]+/\d+(?:/[0-9a-z]{8})?\b`, "WORKER"},
	{`127\.0\.0\.1:\d+`, "ADDRESS"},
	{`[.▁▂▃▄▅▆▇█]{20,}`, "HOURS"},
	{`\d+/\d+( +)\d+\.\d+ +\d+`, "LOAD"},
	{` +(LENGTH)? +`, " "},
	{` +\n`, "\n"},
	{`-{3,}`, "---"},
}

// masked is a text without what differs.
func masked(text string) string {
	for _, m := range masks {
		text = regexp.MustCompile(m.what).ReplaceAllString(text, m.mask)
	}
	return text
}

// TestRecordings types what stands behind each $ in docs/recordings, and wants to see
// what stands below it, but for times, lengths, ids and addresses.
func TestRecordings(t *testing.T) {
	found, err := filepath.Glob("../docs/recordings/*.txt")
	if err != nil || len(found) < 3 {
		t.Fatalf("%d recordings: %v", len(found), err)
	}
	for _, name := range found {
		t.Run(filepath.Base(name), func(t *testing.T) {
			in := newIncident(t, "topics:\n  mail: {handler: exec, command: cat > /dev/null, concurrency: 4}\n")
			in.env = append(in.env, "USER=ann")
			in.fill = map[string]string{}
			want := string(read(t, name))
			got := in.record(want)
			if masked(got) == masked(want) {
				return
			}
			if !*update {
				t.Errorf("it prints\n%s\nand should print\n%s\ngo test ./e2e -run Recordings -update", masked(got),
					masked(want))
			} else if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// record plays a recording again.
func (in *incident) record(script string) string {
	var b strings.Builder
	commands := 0
	for line := range strings.Lines(script) {
		command, typed := strings.CutPrefix(line, "$ ")
		switch {
		case typed:
			commands++
			b.WriteString(line)
			if strings.HasPrefix(command, "pawl up ") {
				in.start()
				continue
			}
			out, _ := in.sh(strings.ReplaceAll(strings.TrimSpace(command), "127.0.0.1:9102", in.address))
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(out, in.address, "127.0.0.1:9102"), in.dir+"/", ""))
		case strings.HasPrefix(line, "# "):
			if commands > 0 {
				b.WriteString("\n")
			}
			b.WriteString(line)
		}
	}
	if commands < 5 {
		in.Fatalf("only %d commands were found", commands)
	}
	return b.String()
}
