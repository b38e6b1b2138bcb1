//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// letters is how many dead letters of one cause there are, among others.
const letters = 1200

// TestReplayIsKilled replays one cause of many dead letters at a rate, kills the
// process twice and resumes: every letter is replayed once, though what was
// replayed dies again meanwhile.
func TestReplayIsKilled(t *testing.T) {
	t.Parallel()
	killReplay(t, "sqlite:"+filepath.Join(t.TempDir(), "pawl.db"))
}

// TestReplayIsKilledPostgres does the same on a server.
func TestReplayIsKilledPostgres(t *testing.T) {
	server := os.Getenv("PAWL_TEST_POSTGRES")
	if server == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
	}
	t.Parallel()
	joint := map[bool]string{true: "&", false: "?"}[strings.Contains(server, "?")]
	url := fmt.Sprintf("%s%spawl_schema=e2e_%08x", server, joint, rand.Uint32())
	p := &operator{t, url}
	p.run("migrate", "up")
	t.Cleanup(func() { p.run("migrate", "down", "--to", "0", "--yes") })
	killReplay(t, url)
}

func killReplay(t *testing.T, url string) {
	p := &operator{t, url}
	p.importLetters()
	fingerprint := p.groups()
	stop := p.dieAgain()
	const rate = 300
	child := p.start("dead", "replay", "--fingerprint", fingerprint, "--yes", "--rate", fmt.Sprintf("%d/s", rate))
	id := child.operation()
	child.killAfter(1200 * time.Millisecond)
	p.wantStatus(id, "running")
	child = p.start("operations", "resume", id)
	child.operation()
	child.killAfter(6200 * time.Millisecond) // it waits five seconds, to see whether the first one lives
	p.run("operations", "resume", id)
	o := p.wantStatus(id, "done")
	stop()
	if o.Done != letters || o.Refused != 0 || o.Planned != letters || o.Runs != 3 {
		t.Errorf("operation %+v; want %d done in 3 runs", o, letters)
	}
	// What a killed run did last is not on record: a quarter of a second, twice.
	if least := float64(letters)/rate - 0.6; o.ActiveSeconds < least {
		t.Errorf("replayed %d in %.1f s; at %d/s it takes %.1f s", letters, o.ActiveSeconds, rate, least)
	}
	p.wantReplays()
	var log []struct {
		Action string
		Count  int64
		Result struct{ Done, Refused int64 }
		Status string
	}
	p.read(&log, "audit", "ls", "--kind", "replay", "-o", "json")
	if len(log) != 1 || log[0].Count != letters || log[0].Result.Done != letters || log[0].Status != "done" {
		t.Errorf("audit %+v", log)
	}
}

// operator is who runs pawl on one store.
type operator struct {
	*testing.T
	url string
}

func (p *operator) command(args ...string) *exec.Cmd {
	c := exec.Command("pawl", args...)
	c.Env = append(os.Environ(), "PAWL_STORE="+p.url)
	return c
}

func (p *operator) run(args ...string) string {
	p.Helper()
	out, err := p.command(args...).Output()
	if err != nil {
		p.Fatalf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *operator) read(into any, args ...string) {
	p.Helper()
	if err := json.Unmarshal([]byte(p.run(args...)), into); err != nil {
		p.Fatal(err)
	}
}

// importLetters stores dead letters of three causes.
func (p *operator) importLetters() {
	p.Helper()
	var lines strings.Builder
	for i := range 3 * letters {
		reason := []string{"dial tcp 10.0.0.%d:80: connect: connection refused", "timeout after %d ms",
			"user %d not found"}[i%3]
		fmt.Fprintf(&lines,
			`{"id":"m%d","topic":"t","body":"{}","enqueued_at":"2026-01-02T03:04:05Z","dead_at":"2026-01-02T03:04:06Z","kind":"K","reason":%q}`+
				"\n",
			i, fmt.Sprintf(reason, i))
	}
	c := p.command("dead", "import", "-", "-o", "jsonl")
	c.Stdin = strings.NewReader(lines.String())
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out),
		fmt.Sprintf(`{"imported":%d,"refused":0}`, 3*letters)) {
		p.Fatalf("import: %v: %s", err, out)
	}
}

// groups wants one group a cause, and returns the fingerprint of the first.
func (p *operator) groups() string {
	p.Helper()
	var groups []struct {
		Fingerprint, Reason string
		Count               int
	}
	p.read(&groups, "dead", "ls", "--group-by", "fingerprint", "-o", "json")
	chosen := ""
	for _, g := range groups {
		if g.Count != letters {
			p.Fatalf("groups %+v", groups)
		}
		if strings.HasPrefix(g.Reason, "dial") {
			chosen = g.Fingerprint
		}
	}
	return chosen
}

// dieAgain carries out what is replayed, and lets it die.
func (p *operator) dieAgain() (stop func()) {
	p.Helper()
	script := `while read -r line; do
	id=${line#*'"id":"'} token=${line#*'"token":"'}
	echo '{"id":"'"${id%%'"'*}"'","token":"'"${token%%'"'*}"'","verdict":"dead","reason":"dial tcp 10.0.0.9:80: connect: connection refused","kind":"K"}'
done
`
	name := filepath.Join(p.TempDir(), "die.sh")
	if err := os.WriteFile(name, []byte(script), 0o644); err != nil {
		p.Fatal(err)
	}
	c := p.command("work", "t", "--pipe", "sh "+name, "-q")
	if err := c.Start(); err != nil {
		p.Fatal(err)
	}
	return func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
		p.run("work", "t", "--pipe", "sh "+name, "-q", "--until-empty")
	}
}

// child is a command under way.
type child struct {
	p      *operator
	cmd    *exec.Cmd
	stderr *bufio.Reader
}

func (p *operator) start(args ...string) *child {
	p.Helper()
	c := &child{p: p, cmd: p.command(args...)}
	pipe, err := c.cmd.StderrPipe()
	if err == nil {
		c.stderr = bufio.NewReader(pipe)
		err = c.cmd.Start()
	}
	if err != nil {
		p.Fatal(err)
	}
	return c
}

var operationID = regexp.MustCompile(`^operation ([0-9a-f-]{36}): `)

// operation waits for the id that the command tells.
func (c *child) operation() string {
	c.p.Helper()
	for {
		line, err := c.stderr.ReadString('\n')
		if m := operationID.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if err != nil {
			c.p.Fatalf("no operation is named: %v", err)
		}
	}
}

// killAfter kills the process after so long.
func (c *child) killAfter(d time.Duration) {
	c.p.Helper()
	time.Sleep(d)
	if err := c.cmd.Process.Kill(); err != nil {
		c.p.Fatal(err)
	}
	if err := c.cmd.Wait(); err == nil {
		c.p.Fatal("it ended before it was killed")
	}
}

// operationNow is what `pawl operations show` tells.
type operationNow struct {
	Status                 string
	Done, Refused, Planned int64
	Runs                   int
	ActiveSeconds          float64 `json:"active_seconds"`
}

func (p *operator) wantStatus(id, status string) (o operationNow) {
	p.Helper()
	p.read(&o, "operations", "show", id, "-o", "json")
	if o.Status != status {
		p.Fatalf("operation %+v; want it %s", o, status)
	}
	return o
}

// wantReplays fails unless the letters of one cause were replayed once and those
// of the others never.
func (p *operator) wantReplays() {
	p.Helper()
	replayed, others := 0, 0
	for line := range strings.Lines(p.run("dead", "export", "-q")) {
		var l struct {
			ID, Reason string
			Replays    int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.Fatal(err)
		}
		switch dial := strings.HasPrefix(l.Reason, "dial"); {
		case dial && l.Replays == 1:
			replayed++
		case !dial && l.Replays == 0:
			others++
		default:
			p.Errorf("%s (%s) was replayed %d times", l.ID, l.Reason, l.Replays)
		}
	}
	if replayed != letters || others != 2*letters {
		p.Errorf("%d were replayed, %d were not; want %d and %d", replayed, others, letters, 2*letters)
	}
}
