// Package meter reads what a run costs: CPU and memory from /proc, WAL, dead
// tuples and commits from the server.
package meter

import (
	"fmt"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every
// Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// selfCPU is user and system time of this process.
func selfCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// PeakRSS is the most memory this process has had resident, in bytes; 0 if the
// system does not say.
func PeakRSS() int64 {
	p, err := procfs.Self()
	if err != nil {
		return 0
	}
	s, _ := p.NewStatus() // zero if it cannot be read
	return int64(s.VmHWM)
}

// CPU is user and system time of a process.
func CPU(pid int) (time.Duration, error) {
	s, err := stat(pid)
	return own(s), err
}

func stat(pid int) (s procfs.ProcStat, err error) {
	p, err := procfs.NewProc(pid)
	if err == nil {
		s, err = p.Stat()
	}
	if err != nil {
		return s, fmt.Errorf("read process %d: %w", pid, err)
	}
	return s, nil
}

// own is the CPU time of a process itself, reaped that of children that it waited for.
func own(s procfs.ProcStat) time.Duration    { return time.Duration(s.UTime+s.STime) * clockTick }
func reaped(s procfs.ProcStat) time.Duration { return time.Duration(s.CUTime+s.CSTime) * clockTick }

// treeCPU is the CPU time of a process, its living children and those it has
// reaped: a PostgreSQL server with all its backends, vacuum and checkpointer.
func treeCPU(root int) (time.Duration, error) {
	for {
		before, err := stat(root)
		if err != nil {
			return 0, err
		}
		all, err := procfs.AllProcs()
		if err != nil {
			return 0, fmt.Errorf("list processes: %w", err)
		}
		var living time.Duration
		for _, p := range all {
			if s, err := p.Stat(); err == nil && s.PPID == root { // an error: it has ended
				living += own(s)
			}
		}
		after, err := stat(root)
		if err != nil {
			return 0, err
		}
		if reaped(before) == reaped(after) { // else a child may have ended between the looks, and be in neither
			return own(after) + reaped(after) + living, nil
		}
	}
}
