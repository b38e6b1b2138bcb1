package beside

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// Daemon is a `pawl up`.
type Daemon struct {
	Address string // it listens on
	Pid     int
	stop    func() time.Duration

	mu   sync.Mutex
	said bytes.Buffer
}

var listens = regexp.MustCompile(`message=started .*listen=(\S+)`)

// Up starts pawl up in a folder with these files, and returns when it says that it has started.
func Up(pawl, dir string, files map[string]string, env ...string) (*Daemon, error) {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath(pawl)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "up")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	d := &Daemon{Pid: cmd.Process.Pid}
	d.stop = sync.OnceValue(func() time.Duration {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ends is not what is measured
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			d.Address = m[1]
			go func() { _, _ = io.Copy(d, out) }()
			return d, nil
		}
		fmt.Fprintln(d, lines.Text())
	}
	return nil, errors.Join(fmt.Errorf("pawl up ended: %s", d.Said()), cmd.Wait())
}

// Write keeps what the daemon says.
func (d *Daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(p)
}

// Said is what the daemon has said.
func (d *Daemon) Said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// Stop ends the daemon, and returns the CPU time that it took.
func (d *Daemon) Stop() time.Duration { return d.stop() }
