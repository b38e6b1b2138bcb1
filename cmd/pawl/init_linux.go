package main

import (
	"os"
	"os/signal"
	"syscall"
)

// asInit runs the command line in a process of its own where this process is the first of a
// container: the kernel hands it every process whose parent has ended, and somebody has to
// wait for these. It passes signals on, and returns the exit code of the other process; false
// if this is not the first process.
func asInit() (code int, ran bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	// The other process inherits this. As the first one would be, it is not stopped by a Ctrl-Z or by reading from the
	// terminal: nothing in a container would let it go on.
	signal.Ignore(syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// A group of its own in the foreground: a Ctrl-C must not come twice.
		Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}}
	p, err := os.StartProcess("/proc/self/exe", os.Args, attr)
	if err != nil { // stdin is no terminal
		attr.Sys = &syscall.SysProcAttr{Setpgid: true}
		if p, err = os.StartProcess("/proc/self/exe", os.Args, attr); err != nil {
			return 0, false
		}
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGCHLD && s != syscall.SIGURG && s != syscall.SIGPIPE {
				_ = syscall.Kill(p.Pid, s.(syscall.Signal)) // that it has ended is what we wait for
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case err == syscall.EINTR || err == nil && pid != p.Pid:
		case err != nil:
			return 1, true
		case status.Signaled():
			return 128 + int(status.Signal()), true
		default:
			return status.ExitStatus(), true
		}
	}
}
