// Package meter reads what a run costs: CPU and memory from /proc, WAL, dead
// tuples and commits from the server.
package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// process is a line of /proc/PID/stat.
type process struct {
	pid, parent int
	name        string
	own, reaped time.Duration // CPU of itself, and of children that it waited for
}

// CPU is user and system time of a process.
func CPU(pid int) (time.Duration, error) {
	p, err := readProcess(pid)
	return p.own, err
}

func readProcess(pid int) (process, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return parseStat(pid, string(b))
}

// parseStat reads pid (name) state ppid … utime stime cutime cstime, which are
// fields 4 and 14 to 17; the name may hold spaces and parentheses.
func parseStat(pid int, line string) (process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("read process %d: %q is no stat line", pid, line)
	}
	fields := strings.Fields(line[end+1:]) // from field 3 on
	if len(fields) < 15 {
		return process{}, fmt.Errorf("read process %d: %d fields", pid, len(fields))
	}
	var n [5]int64
	for i, f := range []int{1, 11, 12, 13, 14} {
		v, err := strconv.ParseInt(fields[f], 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("read process %d: %w", pid, err)
		}
		n[i] = v
	}
	return process{
		pid: pid, parent: int(n[0]), name: line[open+1 : end],
		own: time.Duration(n[1]+n[2]) * clockTick, reaped: time.Duration(n[3]+n[4]) * clockTick,
	}, nil
}

// treeCPU is the CPU time of a process, its living children and those it has
// reaped: a PostgreSQL server with all its backends, vacuum and checkpointer.
func treeCPU(root int) (time.Duration, error) {
	for {
		before, err := readProcess(root)
		if err != nil {
			return 0, err
		}
		living, err := childrenCPU(root)
		if err != nil {
			return 0, err
		}
		after, err := readProcess(root)
		if err != nil {
			return 0, err
		}
		if before.reaped == after.reaped { // else a child may have ended between the looks, and be in neither
			return after.own + after.reaped + living, nil
		}
	}
}

func childrenCPU(parent int) (total time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && p.parent == parent { // an error: it has ended
			total += p.own
		}
	}
	return total, nil
}
