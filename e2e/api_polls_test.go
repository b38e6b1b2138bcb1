//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAPIManyPolls: ten thousand connections ask for a message at once. A thousand wait, the others are told to come
// back, and the process stays below 300 MB and answers as before.
func TestAPIManyPolls(t *testing.T) {
	t.Parallel()
	const polls, waiting = 10_000, 1000
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c := exec.Command("pawl", "api", "--listen", address, "--store", "sqlite:"+t.TempDir()+"/pawl.db")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	const body = `{"topics":["none"],"wait_seconds":60}`
	request := fmt.Sprintf("POST /v1/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	ask := func() net.Conn {
		for range 500 {
			if s, err := net.Dial("tcp", address); err == nil {
				_, _ = s.Write([]byte(request))
				return s
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal("the API does not listen")
		return nil
	}
	all := make([]net.Conn, polls)
	for i := range all {
		all[i] = ask()
		defer all[i].Close()
	}
	refused, left := 0, slices.Clone(all)
	for end := time.Now().Add(40 * time.Second); refused < polls-waiting && time.Now().Before(end); {
		left = slices.DeleteFunc(left, func(s net.Conn) bool {
			status := make([]byte, len("HTTP/1.1 429 "))
			_ = s.SetReadDeadline(time.Now().Add(time.Millisecond))
			n, err := s.Read(status)
			if err == nil && string(status[:n]) == "HTTP/1.1 429 " {
				refused++
			}
			return err == nil
		})
	}
	if refused != polls-waiting {
		t.Errorf("%d of %d polls are refused, want %d", refused, polls, polls-waiting)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if kib, _ := strconv.Atoi(string(peak[1])); kib > 300_000 {
		t.Errorf("the process took %d KiB", kib)
	} else {
		t.Logf("%d KiB at most", kib)
	}
	out, err := exec.Command("curl", "-sS", "--max-time", "20", "http://"+address+"/v1/topics/other/messages",
		"-H", "Content-Type: application/json", "-d", "{}").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"id"`) {
		t.Errorf("an append beside the polls: %v %s", err, out)
	}
}
