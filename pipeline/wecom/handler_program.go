package wecom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
	"github.com/pawl-dev/pawl/policy"
)

// program is a handler that starts a command for every message. Its answer is what the command writes to stdout.
type program struct {
	command  string
	launcher *handler.Launcher
	stderr   *handler.Output
	timeout  time.Duration
}

func newProgram(command string, l *handler.Launcher, timeout time.Duration) *program {
	return &program{command: command, launcher: l, stderr: handler.NewOutput(os.Stderr, nil), timeout: timeout}
}

// Answer implements [Handler].
func (p *program) Answer(ctx context.Context, d *pawl.Delivery) (Answer, error) {
	var said bounded
	h := exec.New(exec.Config{Launcher: p.launcher, Command: p.command, Stdout: handler.NewOutput(&said, nil),
		Stderr: p.stderr})
	call, cancel := context.WithTimeoutCause(ctx, p.timeout, errors.New("timeout"))
	defer cancel()
	err := h.Handle(call, d)
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case call.Err() != nil:
		return Answer{}, policy.With(pawl.OfKind(KindHandler, fmt.Errorf("no answer within %v", p.timeout)),
			policy.Timeout)
	case err != nil:
		return Answer{}, err
	}
	text, whole := said.text()
	if !whole {
		return Answer{}, pawl.Permanent(pawl.OfKind(KindHandler,
			fmt.Errorf("the handler's answer has more than %d MiB", maxHandlerAnswer>>20)))
	}
	a, err := readAnswer(text)
	if err != nil {
		return a, pawl.Permanent(pawl.OfKind(KindHandler, err))
	}
	return a, nil
}

// bounded keeps what is written, up to a limit.
type bounded struct {
	mu   sync.Mutex
	kept bytes.Buffer
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Len()+len(text) > maxHandlerAnswer {
		b.over = true
		return len(text), nil
	}
	return b.kept.Write(text)
}

func (b *bounded) text() (text []byte, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.Bytes(), !b.over
}
