//go:build linux

package crash

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// family is a pawl process with all that it starts. Its members are found by a
// variable in their environment, so that none is missed, however it is grouped.
type family struct {
	mark   string
	cmd    *exec.Cmd
	log    string        // file of its stderr
	exited chan struct{} // closed when the head has ended and is reaped
}

// launch starts the binary under test in the background. Its stderr goes to a file,
// the end of which is shown when the test fails and it had failed, too.
func launch(t *testing.T, env []string, stdin io.Reader, stdout io.Writer, args ...string) *family {
	t.Helper()
	f := &family{mark: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()), exited: make(chan struct{})}
	log, err := os.CreateTemp(t.TempDir(), "stderr-*.log")
	if err != nil {
		t.Fatal(err)
	}
	f.log = log.Name()
	f.cmd = exec.Command(os.Getenv(envPawl), args...)
	f.cmd.Env = append(os.Environ(), append(env, envMark+"="+f.mark)...)
	f.cmd.Stdin, f.cmd.Stdout, f.cmd.Stderr = stdin, stdout, log
	f.cmd.Dir = filepath.Dir(f.log)
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = log.Close() // the process has it
	go func() {
		_ = f.cmd.Wait() // its state tells
		close(f.exited)
	}()
	t.Cleanup(func() {
		f.killAll()
		<-f.exited
		if state := f.cmd.ProcessState; t.Failed() && !state.Success() && state.ExitCode() != 130 &&
			state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Logf("%s %s: %v, stderr ends:\n%s", filepath.Base(f.cmd.Path), strings.Join(args, " "), state,
				f.tail(2000))
		}
	})
	return f
}

// tail is the end of what the head wrote to stderr.
func (f *family) tail(n int) string {
	b, err := os.ReadFile(f.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}

// alive reports whether the head runs (or is stopped).
func (f *family) alive() bool {
	select {
	case <-f.exited:
		return false
	default:
		return true
	}
}

// signal signals the head alone.
func (f *family) signal(sig syscall.Signal) {
	if f.alive() {
		_ = f.cmd.Process.Signal(sig)
	}
}

// signalAll signals the head first, then the others: what they do of it, it does
// not see.
func (f *family) signalAll(sig syscall.Signal) {
	f.signal(sig)
	f.signalOthers(sig)
}

func (f *family) signalOthers(sig syscall.Signal) {
	for _, pid := range members(envMark, f.mark) {
		if pid != f.cmd.Process.Pid {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// killAll kills everybody at once, and looks again until nobody is left.
func (f *family) killAll() {
	f.signalAll(syscall.SIGKILL)
	within(5*time.Second, func() bool {
		f.signalAll(syscall.SIGKILL)
		return len(members(envMark, f.mark)) == 0
	})
}

// wait waits for the head's end and returns its exit code, -1 after a signal.
func (f *family) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-f.exited:
		return f.cmd.ProcessState.ExitCode()
	case <-time.After(patience(limit)):
		t.Fatalf("%v did not end within %v; stderr ends:\n%s", f.cmd.Args[1:], patience(limit), f.tail(2000))
		return 0
	}
}

// members lists the processes with name=value in their environment. This process
// is none of them, and a zombie has no environment.
func members(name, value string) []int {
	want := []byte(name + "=" + value)
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		has := slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, want) })
		if err == nil && has && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// describe names processes by their command lines.
func describe(pids []int) string {
	var text []string
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		text = append(text, fmt.Sprintf("%d %q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return strings.Join(text, "; ")
}
