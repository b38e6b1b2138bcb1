//go:build linux

package systemd

import (
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// manager listens where a service manager would.
func manager(t *testing.T, name string) func() string {
	t.Helper()
	if name[0] == '@' {
		name = "\x00" + name[1:]
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func() string {
		b := make([]byte, 1024)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := conn.Read(b)
		if err != nil {
			t.Error(err)
		}
		return string(b[:n])
	}
}

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestStatesGetToTheManager(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"),
		"@pawl-test-" + strconv.FormatInt(time.Now().UnixNano(), 36)} {
		next := manager(t, name)
		n, err := New(env(map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "42"}),
			42)
		if err != nil {
			t.Fatal(err)
		}
		if n.Watchdog() != 3*time.Second {
			t.Errorf("watchdog every %v", n.Watchdog())
		}
		n.Ready("3 topics")
		n.Reloading()
		n.Alive()
		n.Stopping()
		for _, want := range []string{`^READY=1\nSTATUS=3 topics$`, `^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`,
			`^WATCHDOG=1$`, `^STOPPING=1\nSTATUS=draining$`} {
			if got := next(); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: got %q, want %s", name, got, want)
			}
		}
	}
}

func TestWithoutAManagerNothingIsSaid(t *testing.T) {
	n, err := New(env(nil), 42)
	if n != nil || err != nil {
		t.Errorf("New returned %v, %v", n, err)
	}
	n.Ready("")
	n.Alive()
	if n.Watchdog() != 0 {
		t.Error("a watchdog without a manager")
	}
	if _, err := New(env(map[string]string{"NOTIFY_SOCKET": "/no/such/socket"}), 42); err == nil {
		t.Error("a manager that is not there is no error")
	}
}

func TestAWatchdogOfAnotherProcessIsNotOurs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager(t, name)
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "41"}), 42)
	if err != nil || n.Watchdog() != 0 {
		t.Errorf("watchdog every %v, %v", n.Watchdog(), err)
	}
}
