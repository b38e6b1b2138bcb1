package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// TestFirstProcessIsNotStopped: in a container nothing would let it go on, and SIGTERM would not end it.
func TestFirstProcessIsNotStopped(t *testing.T) {
	cmd := pawl(t, "work", "t", "--exec", "true")
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this system allows no pid namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var line int
	for end := time.Now().Add(30 * time.Second); line == 0; time.Sleep(50 * time.Millisecond) {
		all := children(t, cmd.Process.Pid)
		if len(all) > 0 && len(children(t, all[0].pid)) > 0 { // the guard of programs
			line = all[0].pid
		} else if time.Now().After(end) {
			t.Fatalf("the command line does not run: %s", cmd.Stderr)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		for _, pid := range []int{line, cmd.Process.Pid} { // a Ctrl-Z is for the group in the foreground
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(200 * time.Millisecond)
	if all := children(t, cmd.Process.Pid); len(all) != 1 || all[0].state == "T" {
		t.Errorf("the command line is stopped: %v", all)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("SIGTERM does not end it")
	}
}

// zombies counts the ended children of a process.
func zombies(t *testing.T, parent int) (n int) {
	t.Helper()
	for _, c := range children(t, parent) {
		if c.state == "Z" {
			n++
		}
	}
	return n
}

// child is a process as /proc shows it.
type child struct {
	pid   int
	state string
}

// children are those of a process.
func children(t *testing.T, parent int) (found []child) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		b, _ := os.ReadFile(name) // it may be gone
		pid, _, _ := strings.Cut(string(b), " ")
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			n, _ := strconv.Atoi(pid)
			found = append(found, child{n, f[0]})
		}
	}
	return found
}
