package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/internal/process"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/policy"
)

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

// Handler is a handler that starts a program for every delivery: the body on its
// stdin, the rest in its environment, its exit code the verdict. It is safe for
// concurrent use.
type Handler struct {
	config Config
	env    []string
}

// Config says what to run. Launcher and Command are required.
type Config struct {
	// Command is run with the shell.
	Command string
	// Launcher starts the programs.
	Launcher *process.Launcher
	// Stdout and Stderr get what the programs write, a line at a time; nil drops it.
	Stdout, Stderr *process.Output
}

// New returns the handler.
func New(c Config) *Handler { return &Handler{config: c, env: process.Environ()} }

// environ adds what describes d. Of a key that holds a NUL, which no environment
// can, there is PAWL_KEY_BASE64 only.
func (e *Handler) environ(ctx context.Context, d *pawl.Delivery) []string {
	env := slices.Grow(slices.Clip(e.env), len(process.DeliveryVariables))
	key := "PAWL_KEY=" + string(d.Key)
	if bytes.IndexByte(d.Key, 0) >= 0 {
		key = "PAWL_KEY_BASE64=" + wire.Base64(d.Key)
	}
	trace := d.Headers["traceparent"]
	if strings.IndexByte(trace, 0) >= 0 {
		trace = ""
	}
	if d.Log != nil {
		if log := wire.AppendLog(nil, d.Log); len(log) <= maxLog {
			env = append(env, "PAWL_LOG="+string(log))
		}
	}
	deadline := time.Now().Add(d.Deadline)
	if t, ok := ctx.Deadline(); ok {
		deadline = t
	}
	return append(env,
		"PAWL_LAST_ATTEMPT="+strconv.FormatBool(policy.LastAttempt(ctx, policy.KindCommand)),
		"PAWL_DEADLINE="+string(wire.AppendTime(nil, deadline)),
		"PAWL_ID="+d.ID, "PAWL_TOPIC="+d.Topic, key, "PAWL_ATTEMPT="+strconv.Itoa(d.Attempt),
		"PAWL_TOKEN="+d.Token.String(),
		"PAWL_TRACEPARENT="+trace, "PAWL_HEADERS="+string(wire.AppendHeaders(nil, d.Headers)))
}

// maxLog is the most that PAWL_LOG may have: other programs may write headers of any
// size, and with a variable over 128 KiB no program starts.
const maxLog = 64 << 10

// Handle runs the program once. When ctx ends, the program's process group does,
// too: at once if the lease or the deadline is over, because somebody else may be
// working on the message; otherwise it is asked first. What a program says that was
// asked to end is not its verdict: many say 0 then, and have not done their work.
func (e *Handler) Handle(ctx context.Context, d *pawl.Delivery) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd := process.Shell(e.config.Command)
	cmd.Env = e.environ(ctx, d)
	streams, err := process.OpenStreams(cmd, len(d.Body) > 0)
	if err != nil {
		return startError(err)
	}
	p, err := e.config.Launcher.Start(cmd)
	streams.Started()
	if err != nil {
		streams.Close()
		return startError(err)
	}
	said := &process.Tail{}
	var reading, writing sync.WaitGroup
	reading.Go(func() { process.Read(streams.Stdout, &process.Lines{Out: e.config.Stdout}) })
	reading.Go(func() { process.Read(streams.Stderr, &process.Lines{Out: e.config.Stderr, Tail: said}) })
	writing.Go(func() {
		_, _ = streams.Stdin.Write(d.Body) // a program need not read what it does not want
		_ = streams.Stdin.Close()
	})
	stop := context.AfterFunc(ctx, func() { end(p, context.Cause(ctx)) })
	state := p.Wait()
	inTime := stop()
	streams.Ended()
	reading.Wait()
	_ = streams.Stdin.SetWriteDeadline(time.Now())
	writing.Wait()
	if !inTime {
		return context.Cause(ctx)
	}
	return verdict(state.ExitCode(), said.Reason(process.Describe(state)))
}

// verdict translates an exit code; -1 is a signal.
func verdict(code int, reason string) error {
	switch code {
	case exitAck:
		return nil
	case exitDead:
		return pawl.Permanent(pawl.OfKind(policy.KindCommand, errors.New(reason)))
	case exitRelease:
		return pawl.Release(releaseFor, reason)
	default:
		return pawl.OfKind(policy.KindCommand, errors.New(reason))
	}
}

// startError is permanent where it is about this message, and gives it back where it is about this machine, which has
// no files, processes or memory left.
func startError(err error) error {
	if handler.Lacks(err) || errors.Is(err, syscall.EAGAIN) {
		return pawl.Release(releaseFor, "start the program: "+err.Error())
	}
	if errors.Is(err, syscall.E2BIG) {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode,
			errors.New("the headers do not fit into an environment; use --pipe")))
	}
	return pawl.OfKind(policy.KindCommand, fmt.Errorf("start the program: %w", err))
}

// end ends a program because of cause.
func end(p *process.Process, cause error) {
	if errors.Is(cause, pawl.ErrLeaseLost) || errors.Is(cause, pawl.ErrDeadline) {
		p.Kill()
		return
	}
	p.End()
}
