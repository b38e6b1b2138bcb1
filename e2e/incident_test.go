//go:build unix

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// incident is a folder with a store, a configuration and a daemon, in which something
// goes wrong, and a person who follows a page of the runbook.
type incident struct {
	*testing.T
	dir, address string
	env          []string
	prefix       string            // of the topics on the tests' broker
	fill         map[string]string // placeholders on the page
	mend         func(*incident)   // what is left to be done, and at which step
	mendAt       string
	calm         scrape // what the daemon exported before
}

// nextPort is where the next incident looks for a port. It is below those that the
// system gives to whoever asks for any port, so that nobody gets it by chance between
// two starts of a daemon.
var nextPort atomic.Int32

func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 24_000+os.Getpid()%4000+int(nextPort.Add(1)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// newIncident makes one whose daemon is to listen on a port of its own.
func newIncident(t *testing.T, config string) *incident {
	t.Helper()
	in := &incident{T: t, dir: t.TempDir(), address: freeAddress(t),
		fill: map[string]string{"TOPIC": "mail", "CMD": "true", "FALLBACK": "sqlite:spill.db"}}
	in.env = append(os.Environ(), "PAWL_LISTEN="+in.address, "NO_COLOR=1", "COLUMNS=1000",
		"PAWL_STORE=sqlite:"+filepath.Join(in.dir, "pawl.db"))
	in.write("pawl.yaml", config)
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(in.dir, "up.pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(in.dir, "up.err"))
			t.Logf("the daemon said:\n%s", text[max(0, len(text)-1000):])
		}
	})
	return in
}

func (in *incident) write(name, text string) {
	in.Helper()
	if err := os.WriteFile(filepath.Join(in.dir, name+".new"), []byte(text), 0o600); err != nil {
		in.Fatal(err)
	}
	if err := os.Rename(filepath.Join(in.dir, name+".new"), filepath.Join(in.dir, name)); err != nil {
		in.Fatal(err)
	}
}

// sh runs a command, and returns what it prints and its exit code.
func (in *incident) sh(code string) (string, int) {
	cmd := script(in.T, code)
	cmd.Dir, cmd.Env = in.dir, in.env
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func (in *incident) must(code string) string {
	in.Helper()
	out, got := in.sh(code)
	if got != 0 {
		in.Fatalf("%s: exit code %d\n%s", code, got, out)
	}
	return out
}

func (in *incident) start() { in.Helper(); in.must("daemon start --listen " + in.address) }

// send appends messages with the ids m1 to mN.
func (in *incident) send(n int, topic string) {
	in.Helper()
	in.must(
		fmt.Sprintf(`for i in $(seq %d); do echo "{\"id\":\"m$i\",\"body\":\"$i\"}"; done | pawl send %s --jsonl -q`, n,
			topic))
}

// until runs a command until it prints something.
func (in *incident) until(code, want string) {
	in.Helper()
	in.try(code, want, 0, true)
}

var codeWanted = regexp.MustCompile(`# exit code (\d+)`)

// backoffPatience is how long an incident may take to be over: what failed last before it was mended is repeated after
// the longest backoff, and an index that has just started may not answer in time at first.
const backoffPatience = 30*time.Second + 3*patience

// do does what stands in a block of the page, and wants to see what stands below it. What only looks may be repeated
// until it does.
func (in *incident) do(b block, want string, repeat bool) {
	in.Helper()
	code := 0
	if m := codeWanted.FindStringSubmatch(b.code); m != nil {
		code, _ = strconv.Atoi(m[1])
	}
	in.try(in.filled(b.code), want, code, repeat)
}

func (in *incident) try(command, want string, code int, repeat bool) {
	in.Helper()
	for end := time.Now().Add(backoffPatience); ; time.Sleep(200 * time.Millisecond) {
		out, got := in.sh(command)
		if got == code && says(out, want, in.fill) {
			return
		}
		if !repeat || time.Now().After(end) {
			in.Fatalf("%s\nexit code %d, want %d; it prints\n%s\nand should print\n%s", command, got, code, out, want)
		}
	}
}

// filled replaces placeholders. An ID is one of the messages that are there.
func (in *incident) filled(text string) string {
	if strings.Contains(text, "ID") {
		in.fill["ID"] = strings.TrimSpace(
			in.must(`(pawl messages ls --topic mail --limit 1 -o jsonl; pawl dead ls --topic mail --limit 1 -o jsonl) |
			sed -n '1s/^{"id":"\([^"]*\)".*/\1/p'`))
	}
	for name, value := range in.fill {
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(text, value)
	}
	return strings.ReplaceAll(text, "127.0.0.1:9102", in.address)
}

// says reports whether a text has lines like those wanted, in their order; … is
// anything, and so is what stands before and behind. A placeholder is what it was
// filled with, or the head of a column.
func says(text, want string, fill map[string]string) bool {
	lines := strings.Split(text, "\n")
	for w := range strings.Lines(want) {
		parts := strings.Split(strings.Join(strings.Fields(w), " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
		}
		pattern := strings.Join(parts, ".*")
		for name, value := range fill {
			either := "(?:" + name + "|" + regexp.QuoteMeta(value) + ")"
			pattern = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(pattern, either)
		}
		like := regexp.MustCompile(pattern)
		at := 0
		for at < len(lines) && !like.MatchString(strings.Join(strings.Fields(lines[at]), " ")) {
			at++
		}
		if at == len(lines) {
			return false
		}
		lines = lines[at+1:]
	}
	return true
}

func TestSays(t *testing.T) {
	out := "TOPIC   WAITING  DEAD\nmail          3     0\n"
	for want, ok := range map[string]bool{
		"": true, "TOPIC … DEAD": true, "TOPIC WAITING\nmail 3": true, "mail 3\nTOPIC": false, "mail 4": false,
		"ail …0": true, "TOPIC.": false,
		"TOPIC\nTOPIC … 0": true, "x TOPIC": false,
	} {
		if says(out, want, map[string]string{"TOPIC": "mail"}) != ok {
			t.Errorf("%q: want %v", want, ok)
		}
	}
}
