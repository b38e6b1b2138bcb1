//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the leader of a process group.
func ownGroup(cmd *exec.Cmd, _ bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit leaves the waiting to os.Process.Wait.
func awaitExit(int) bool { return false }

// Unread does not know, and so takes all for read.
func Unread(*os.File) int { return 0 }
