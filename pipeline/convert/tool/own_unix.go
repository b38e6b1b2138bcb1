//go:build unix

package tool

import (
	"os/exec"
	"syscall"
)

// own gives a program a process group, so that what it started ends with it.
func own(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
