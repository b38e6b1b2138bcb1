package wecom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/policy"
)

// kept is a handler whose command is kept running. Its answer is the member output of a verdict.
type kept struct {
	pipe    *pipe.Pipe
	timeout time.Duration

	mu      sync.Mutex
	outputs map[pawl.Token][]byte
}

func newKept(command string, concurrency int, l *handler.Launcher, timeout time.Duration, log *slog.Logger) *kept {
	k := &kept{timeout: timeout, outputs: map[pawl.Token][]byte{}}
	k.pipe = pipe.Start(pipe.Config{
		Launcher: l, Command: command, Children: min(concurrency, maxChildren),
		Stderr: handler.NewOutput(os.Stderr, nil), Logger: log,
		Output: k.output,
	})
	return k
}

// maxChildren bounds how many programs are kept. Each may hold many messages at once.
const maxChildren = 4

func (k *kept) output(d *pawl.Delivery, text []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outputs[d.Token] = text
}

// Answer implements [Handler].
func (k *kept) Answer(ctx context.Context, d *pawl.Delivery) (Answer, error) {
	call, cancel := context.WithTimeoutCause(ctx, k.timeout, errors.New("timeout"))
	defer cancel()
	err := k.pipe.Handle(call, d)
	k.mu.Lock()
	text := k.outputs[d.Token]
	delete(k.outputs, d.Token)
	k.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err != nil && call.Err() != nil:
		return Answer{}, policy.With(pawl.OfKind(KindHandler, fmt.Errorf("no answer within %v", k.timeout)),
			policy.Timeout)
	case err != nil:
		return Answer{}, err
	}
	a, err := readAnswer(text)
	if err != nil {
		return a, pawl.Permanent(pawl.OfKind(KindHandler, err))
	}
	return a, nil
}

// Close ends the programs.
func (k *kept) Close() { k.pipe.Close() }
