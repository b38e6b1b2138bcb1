package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asPawl, in the environment of this test binary, makes it pawl.
const asPawl = "PAWL_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPawl) != "" {
		main()
	}
	os.Exit(m.Run())
}

// pawl is a command that runs as the first process of a pid namespace.
func pawl(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), asPawl+"=1", "PAWL_STORE=sqlite:"+filepath.Join(cmd.Dir, "pawl.db"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	}
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

// TestFirstProcessReaps: what programs leave behind is handed to the first process of a
// container, and stays a zombie until that has waited for it.
func TestFirstProcessReaps(t *testing.T) {
	cmd := pawl(t, "work", "t", "--concurrency", "4", "--exec", "(sleep 0.05 &) ; (setsid sleep 0.05 &) ; echo >> done")
	var lines bytes.Buffer
	for i := range 30 {
		fmt.Fprintf(&lines, `{"body":"%d"}`+"\n", i)
	}
	send := exec.Command(os.Args[0], "send", "t", "--jsonl")
	send.Env, send.Dir, send.Stdin = cmd.Env, cmd.Dir, &lines
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this system allows no pid namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(cmd.Dir, "done")); len(b) == 30 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d of 30 messages are done: %s", len(b), cmd.Stderr)
		}
	}
	left := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if left = zombies(t, cmd.Process.Pid); left == 0 {
			break
		}
	}
	if left > 0 {
		t.Errorf("%d zombies are left", left)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 && cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("after SIGTERM %v: %s", cmd.ProcessState, cmd.Stderr)
	}
	if said := fmt.Sprint(cmd.Stderr); !strings.Contains(said, "30 acked") {
		t.Errorf("it did not end in order: %s", said)
	}
}

func TestFirstProcessHasTheExitCodeOfTheCommand(t *testing.T) {
	cmd := pawl(t, "no-such-command")
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this system allows no pid namespace: %v", err)
	}
	if cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("%v: %s", err, cmd.Stderr)
	}
}

// zombies counts the ended children of a process.
func zombies(t *testing.T, parent int) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		b, _ := os.ReadFile(name) // it may be gone
		_, rest, _ := strings.Cut(string(b), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", parent)) {
			n++
		}
	}
	return n
}
