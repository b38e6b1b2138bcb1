package process

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// ownGroup makes cmd the leader of a process group; a mortal one is killed when
// the thread that starts it ends.
func ownGroup(cmd *exec.Cmd, mortal bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if mortal {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}

// awaitExit waits until pid has ended and leaves it to be reaped, so that its
// number stays its own. It returns whether it could.
func awaitExit(pid int) bool {
	const (
		pPid    = 1
		wExited = 4
		wNoWait = 0x01000000
	)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(pid), 0, wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// Unread returns how many bytes of a pipe, of which w is the writing end, nobody
// has read.
func Unread(w *os.File) int {
	conn, err := w.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	_ = conn.Control(func(fd uintptr) {
		const fionread = 0x541B
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, fionread, uintptr(unsafe.Pointer(&n)))
		if errno != 0 {
			n = 0
		}
	})
	return int(n)
}
