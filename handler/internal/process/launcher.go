package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// Launcher starts programs that do not outlive this process, even if it is
// killed. Make one with [NewLauncher]. It is safe for concurrent use.
//
// Two things see to that. The kernel kills a program when the thread that
// started it ends (Linux); so all are started from one thread that stays. And a
// guard, a small shell process, reads from a pipe which process groups are there
// and kills them when the pipe ends, for what programs have started themselves. What a
// program has started survives only if this process is killed in the moment between the
// start of the program and word of it to the guard.
type Launcher struct {
	starts chan start
	done   chan struct{} // closed by Close

	mu     sync.Mutex
	guard  *os.File // nil: none, or it is gone
	watch  *exec.Cmd
	slots  []int // free ones
	used   int
	closed bool
}

type start struct {
	cmd  *exec.Cmd
	slot int
	err  chan error
}

// guardScript keeps a process group per slot, and kills them at the end of its
// input. It is in a group of its own and ignores what is meant for others.
const guardScript = `trap '' HUP INT QUIT TERM
n=0
while read -r slot group; do
	eval "g$slot=\$group"
	[ "$slot" -le "$n" ] || n=$slot
done
while [ "$n" -ge 0 ]; do
	eval "group=\${g$n:-0}"
	[ "$group" = 0 ] || kill -s KILL -- "-$group" 2>/dev/null
	n=$((n - 1))
done`

// NewLauncher starts the thread and the guard.
func NewLauncher() (*Launcher, error) {
	l := &Launcher{starts: make(chan start), done: make(chan struct{})}
	go l.spawn()
	if err := l.startGuard(); err != nil {
		close(l.done)
		return nil, fmt.Errorf("start the guard of programs: %w", err)
	}
	return l, nil
}

// spawn starts programs from a thread that ends with the process or the launcher,
// and no sooner.
func (l *Launcher) spawn() {
	runtime.LockOSThread()
	for {
		select {
		case s := <-l.starts:
			err := s.cmd.Start()
			if err == nil && !l.tell(s.slot, s.cmd.Process.Pid) { // at once: what it starts is in its group
				err = errUntold
			}
			s.err <- err
		case <-l.done:
			return
		}
	}
}

func (l *Launcher) startGuard() error {
	if !hasGroups {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = read.Close() }()
	l.watch = exec.Command("/bin/sh", "-c", guardScript)
	l.watch.Stdin = read
	ownGroup(l.watch, false)
	if err := l.watch.Start(); err != nil {
		_ = write.Close()
		return err
	}
	l.guard = write
	return nil
}

// Start starts cmd as the leader of a process group of its own. Of a launcher that is
// closed, or is being closed, the error is [os.ErrClosed], and nothing runs.
func (l *Launcher) Start(cmd *exec.Cmd) (*Process, error) {
	ownGroup(cmd, true)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, os.ErrClosed
	}
	slot := l.used
	if n := len(l.slots); n > 0 {
		slot, l.slots = l.slots[n-1], l.slots[:n-1]
	} else {
		l.used++
	}
	l.mu.Unlock()
	s := start{cmd: cmd, slot: slot, err: make(chan error, 1)}
	select {
	case l.starts <- s:
	case <-l.done:
		l.release(slot)
		return nil, os.ErrClosed
	}
	err, p := <-s.err, &Process{launcher: l, cmd: cmd, slot: slot}
	switch err {
	case nil:
		return p, nil
	case errUntold:
		p.Kill()
		p.Wait()
		return nil, os.ErrClosed
	default:
		l.release(slot)
		return nil, err
	}
}

// errUntold says that a program runs of which the guard does not know, because the launcher is closed.
var errUntold = errors.New("untold")

// tell lets the guard know which group is in a slot, 0 for none. It is false when the
// launcher is closed, and whoever has started something has to end it.
func (l *Launcher) tell(slot, group int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.guard == nil {
		return !l.closed
	}
	line := strconv.AppendInt(nil, int64(slot), 10)
	line = append(strconv.AppendInt(append(line, ' '), int64(group), 10), '\n')
	_ = l.guard.SetWriteDeadline(time.Now().Add(time.Second)) // a guard that somebody has stopped must not stop us
	if _, err := l.guard.Write(line); err != nil {
		_ = l.guard.Close() // half a line would be read as another one
		l.guard = nil
	}
	return true
}

// release gives a slot back.
func (l *Launcher) release(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = append(l.slots, slot)
}

// Close ends the launcher, and kills what it started and still runs. A Start under
// way fails, or what it starts is killed, too.
func (l *Launcher) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	if l.guard != nil {
		_ = l.guard.Close()
		l.guard = nil
	}
	if l.watch != nil {
		resume(l.watch.Process) // somebody may have stopped it
		_ = l.watch.Wait()
	}
}

// Process is a program that was started, with its process group.
type Process struct {
	launcher *Launcher
	cmd      *exec.Cmd
	slot     int

	mu   sync.Mutex
	gone bool // its number may be somebody else's
}

// Kill kills the whole group at once.
func (p *Process) Kill() { p.signal(killSignal) }

// grace is how long a program may tidy up after it was asked to end.
const grace = time.Second

// End asks the whole group to end, and kills it when a second has passed.
func (p *Process) End() {
	p.signal(termSignal)
	time.AfterFunc(grace, p.Kill)
}

func (p *Process) signal(sig os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		signalGroup(p.cmd.Process, sig)
	}
}

// Wait waits until the program has ended, kills what is left of its group, and
// says how it ended. It is called once.
func (p *Process) Wait() *os.ProcessState {
	unreaped := awaitExit(p.cmd.Process.Pid)
	if unreaped {
		p.bury()
	}
	_ = p.cmd.Wait() // how it ended is in the state
	if !unreaped {
		p.bury()
	}
	p.launcher.tell(p.slot, 0)
	p.launcher.release(p.slot)
	return p.cmd.ProcessState
}

// bury kills what is left of the group, for the last time.
func (p *Process) bury() {
	p.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}
