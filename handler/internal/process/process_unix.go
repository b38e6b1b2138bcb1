//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

const (
	hasGroups  = true
	killSignal = syscall.SIGKILL
	termSignal = syscall.SIGTERM
)

// Shell returns the command line as /bin/sh understands it.
func Shell(command string) *exec.Cmd { return exec.Command("/bin/sh", "-c", command) }

// signalGroup signals the group that p leads. That it is gone is no error.
func signalGroup(p *os.Process, sig os.Signal) {
	_ = syscall.Kill(-p.Pid, sig.(syscall.Signal))
}

// resume lets a process go on that was stopped.
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// Describe says how a program ended.
func Describe(state *os.ProcessState) string {
	if state == nil {
		return "ended in an unknown way"
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return "killed by " + signalName(ws.Signal())
	}
	return state.String()
}

func signalName(s syscall.Signal) string {
	name, ok := map[syscall.Signal]string{
		syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGSEGV: "SIGSEGV", syscall.SIGABRT: "SIGABRT",
		syscall.SIGPIPE: "SIGPIPE",
	}[s]
	if !ok {
		return "signal: " + s.String()
	}
	return name
}
