//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnreadOutputHoldsUpNothing: a daemon whose stderr nobody reads, with programs that write a lot there, carries
// out everything, counts what it dropped, and ends when it is asked to.
func TestUnreadOutputHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "stderr")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	unread, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unread.Close() }()
	const messages = 100
	config := "topics: {mail: {handler: exec, command: 'head -c 100000 /dev/zero | tr \"\\0\" x >&2', concurrency: 4}}\n"
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	pawl := func(stdin string, args ...string) string {
		c := exec.Command("pawl", args...)
		c.Dir, c.Stdin = dir, strings.NewReader(stdin)
		text, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("pawl %v: %v\n%s", args, err, text)
		}
		return string(text)
	}
	pawl(strings.Repeat("{\"topic\":\"mail\"}\n", messages), "send", "--jsonl")
	daemon := exec.Command("pawl", "up", "--listen", "127.0.0.1:0")
	daemon.Dir, daemon.Stderr = dir, unread
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	address := listening(t, unread)
	await := regexp.MustCompile(fmt.Sprintf(`"acked_total":\s*%d\b`, messages))
	for deadline := time.Now().Add(time.Minute); !await.MatchString(pawl("", "topics", "ls", "-o", "json")); {
		if time.Now().After(deadline) {
			t.Fatalf("not everything is done: %s", pawl("", "topics", "ls"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	reply, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reply.Body)
	_ = reply.Body.Close()
	if err != nil || !regexp.MustCompile(`log_dropped_total\{reason="full",sink="stderr"\} [1-9]`).Match(text) {
		t.Errorf("what was dropped is not counted: %v", err)
	}
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	case <-time.After(patience):
		_ = daemon.Process.Kill()
		t.Error("the daemon did not end within", patience, "of SIGTERM")
	}
}

// listening reads the log until it says at which address the daemon is, and nothing after it.
func listening(t *testing.T, log io.Reader) string {
	t.Helper()
	var text []byte
	address := regexp.MustCompile(`listen=(\S+) `)
	for one := make([]byte, 1); len(text) < 64<<10; {
		if _, err := log.Read(one); err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
		if m := address.FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	t.Fatalf("no address in %s", text)
	return ""
}
