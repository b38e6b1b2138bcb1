package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/program/wire"
)

// KindCommand is the kind of failure of a program that does not say one itself.
const KindCommand pawl.Kind = "Command"

// The exit codes that mean something, from sysexits.h.
const (
	exitAck     = 0
	exitDead    = 65 // EX_DATAERR
	exitRelease = 69 // EX_UNAVAILABLE
	exitRetry   = 75 // EX_TEMPFAIL
)

// releaseFor is how long a lane stays closed after exit code 69, lest the program
// is started again and again for nothing.
const releaseFor = time.Second

// grace is how long a program may tidy up after it was asked to end.
const grace = time.Second

// Exec is a handler that starts a program for every delivery: the body on its
// stdin, the rest in its environment, its exit code the verdict. It is safe for
// concurrent use.
type Exec struct {
	launcher *Launcher
	command  string
	stdout   *Output
	stderr   *Output
	env      []string
}

// NewExec returns the handler that runs command with the shell. What programs
// write goes to stdout and stderr, line by line; nil drops it.
func NewExec(l *Launcher, command string, stdout, stderr *Output) *Exec {
	return &Exec{launcher: l, command: command, stdout: stdout, stderr: stderr, env: cleanEnviron()}
}

// cleanEnviron is this process's environment without what describes a delivery,
// because Pawl may itself be running as somebody's handler, and without what lets it
// speak with the service manager: a program that does would speak for the daemon.
func cleanEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(deliveryVariables, name) || slices.Contains(managerVariables, name)
	})
}

var managerVariables = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

var deliveryVariables = []string{
	"PAWL_ID", "PAWL_TOPIC", "PAWL_KEY", "PAWL_KEY_BASE64", "PAWL_ATTEMPT", "PAWL_TOKEN", "PAWL_TRACEPARENT", "PAWL_HEADERS",
}

// environ adds what describes d. Of a key that holds a NUL, which no environment
// can, there is PAWL_KEY_BASE64 only.
func (e *Exec) environ(d *pawl.Delivery) []string {
	env := slices.Grow(slices.Clip(e.env), len(deliveryVariables))
	key := "PAWL_KEY=" + string(d.Key)
	if bytes.IndexByte(d.Key, 0) >= 0 {
		key = "PAWL_KEY_BASE64=" + wire.Base64(d.Key)
	}
	trace := d.Headers["traceparent"]
	if strings.IndexByte(trace, 0) >= 0 {
		trace = ""
	}
	return append(env,
		"PAWL_ID="+d.ID, "PAWL_TOPIC="+d.Topic, key, "PAWL_ATTEMPT="+strconv.Itoa(d.Attempt), "PAWL_TOKEN="+d.Token.String(),
		"PAWL_TRACEPARENT="+trace, "PAWL_HEADERS="+string(wire.AppendHeaders(nil, d.Headers)))
}

// Handle runs the program once. When ctx ends, the program's process group does,
// too: at once if the lease or the deadline is over, because somebody else may be
// working on the message; otherwise it is asked first. What a program says that was
// asked to end is not its verdict: many say 0 then, and have not done their work.
func (e *Exec) Handle(ctx context.Context, d *pawl.Delivery) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd := shell(e.command)
	cmd.Env = e.environ(d)
	streams, err := openStreams(cmd, d.Body)
	if err != nil {
		return pawl.OfKind(KindCommand, fmt.Errorf("start the program: %w", err))
	}
	p, err := e.launcher.Start(cmd)
	streams.started()
	if err != nil {
		streams.abandon()
		return startError(err)
	}
	said := &tail{}
	streams.copy(&lines{out: e.stdout}, &lines{out: e.stderr, tail: said})
	stop := context.AfterFunc(ctx, func() { end(p, context.Cause(ctx)) })
	state := p.Wait()
	inTime := stop()
	streams.wait()
	if !inTime {
		return context.Cause(ctx)
	}
	return verdict(state.ExitCode(), said.reason(describe(state)))
}

// verdict translates an exit code; -1 is a signal.
func verdict(code int, reason string) error {
	switch code {
	case exitAck:
		return nil
	case exitDead:
		return pawl.Permanent(pawl.OfKind(KindCommand, errors.New(reason)))
	case exitRelease:
		return pawl.Release(releaseFor, reason)
	default:
		return pawl.OfKind(KindCommand, errors.New(reason))
	}
}

// startError is permanent where it is about this message.
func startError(err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, errors.New("the headers do not fit into an environment; use --pipe")))
	}
	return pawl.OfKind(KindCommand, fmt.Errorf("start the program: %w", err))
}

// end ends a program because of cause.
func end(p *Process, cause error) {
	if errors.Is(cause, pawl.ErrLeaseLost) || errors.Is(cause, pawl.ErrDeadline) {
		p.Kill()
		return
	}
	p.Terminate()
	time.AfterFunc(grace, p.Kill)
}

// read copies a program's output into l until it ends.
func read(f *os.File, l *lines) {
	_, _ = io.Copy(l, f)
	l.end()
	_ = f.Close()
}
