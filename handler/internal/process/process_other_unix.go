//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the leader of a process group.
func ownGroup(cmd *exec.Cmd, _ bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
