//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReleaseBeforeRunsBesideThisSchema: a worker of the last release goes on while this version migrates its store,
// and beside a worker of this version afterwards. PAWL_TEST_RELEASE_BEFORE names another commit to take for it.
func TestReleaseBeforeRunsBesideThisSchema(t *testing.T) {
	before := os.Getenv("PAWL_TEST_RELEASE_BEFORE")
	if before == "" {
		tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
		if err != nil {
			t.Skip("no release is tagged yet")
		}
		before = strings.TrimSpace(string(tag))
	}
	server := os.Getenv("PAWL_TEST_POSTGRES")
	if server == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
	}
	t.Parallel()
	old := build(t, before)
	joint := map[bool]string{true: "&", false: "?"}[strings.Contains(server, "?")]
	url := fmt.Sprintf("%s%spawl_schema=e2e_%08x", server, joint, rand.Uint32())
	run := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "PAWL_STORE="+url)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, text)
		}
		return string(text)
	}
	run(old, "migrate", "up")
	t.Cleanup(func() { run("pawl", "migrate", "down", "--to", "0", "--yes") })
	const each = 5
	send := func(program string) {
		for range each {
			run(program, "send", "mail", "hello", "--key", "k")
		}
	}
	send(old)
	worker, output := exec.Command(old, "work", "mail", "--exec", "cat >/dev/null"), &bytes.Buffer{}
	worker.Env, worker.Stdout, worker.Stderr = append(os.Environ(), "PAWL_STORE="+url), output, output
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	acked := func(n int) {
		t.Helper()
		want := fmt.Sprintf(`"acked_total":%d,`, n)
		for end := time.Now().Add(time.Minute); !strings.Contains(run("pawl", "topics", "ls", "-o", "json"), want); {
			if time.Now().After(end) {
				_ = worker.Process.Kill()
				_ = worker.Wait()
				t.Fatalf("not %d messages were acked:\n%s\n%s", n, run("pawl", "topics", "ls", "-o", "json"), output)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	acked(each)
	run("pawl", "migrate", "up")
	send("pawl")
	acked(2 * each) // by the old worker: there is no other
	send("pawl")
	run("pawl", "work", "mail", "--exec", "cat >/dev/null", "--until-empty")
	acked(3 * each)
	err := cmp.Or(worker.Process.Signal(syscall.SIGTERM), worker.Wait())
	if err != nil || !strings.Contains(output.String(), " 0 retried, 0 dead") {
		t.Errorf("the worker of %s: %v\n%s", before, err, output)
	}
}

// build builds pawl of a commit.
func build(t *testing.T, commit string) string {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "pawl")
	script := exec.Command("sh", "-ec",
		`git -C .. archive "$1" | tar -x -C "$2"; cd "$2"; go build -trimpath -o "$3" ./cmd/pawl`,
		"sh", commit, folder, program)
	if text, err := script.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, text)
	}
	return program
}
