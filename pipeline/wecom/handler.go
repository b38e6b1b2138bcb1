package wecom

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	nethttp "net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
	"github.com/pawl-dev/pawl/handler/http"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/policy"
)

const (
	maxHandlerAnswer = 4 << 20
	// maxChildren bounds how many programs are kept. Each may hold many messages at once.
	maxChildren = 4
)

// outside is a handler that is another program: a handler of any topic whose output is the answer.
type outside struct {
	handle  func(ctx context.Context, d *pawl.Delivery) error
	timeout time.Duration

	mu      sync.Mutex
	outputs map[pawl.Token][]byte
}

func newOutside(timeout time.Duration) *outside {
	return &outside{timeout: timeout, outputs: map[pawl.Token][]byte{}}
}

// newWebhook makes a handler that posts the envelope to a web service. Its answer is the body of the reply. An empty
// key signs nothing.
func newWebhook(text, key string, timeout time.Duration) (*outside, error) {
	if u, err := url.Parse(text); err != nil || u.Host == "" {
		return nil, errors.New("handler.http is not a URL like http://127.0.0.1:8081/message")
	}
	o := newOutside(timeout)
	hook, err := http.New(http.Config{URL: text, Output: o.put, Request: func(r *nethttp.Request, d *pawl.Delivery) {
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Pawl-Signature", sign([]byte(key), time.Now(), d.Body))
		}
	}})
	if err != nil {
		return nil, err
	}
	o.handle = func(ctx context.Context, d *pawl.Delivery) error { return refusal(hook.Handle(ctx, d)) }
	return o, nil
}

// refusal gives a failure of a web service the kind of handlers: 4xx is for good, but for the codes that say otherwise.
func refusal(err error) error {
	kind := pawl.Describe(err).Kind
	if kind == "" { // none, or the delivery is handed back
		return err
	}
	err = pawl.OfKind(KindHandler, fmt.Errorf("the handler: %w", err))
	if kind == policy.KindRejected {
		return pawl.Permanent(err)
	}
	return err
}

// sign is the value of Pawl-Signature: with the key, a receiver can verify the origin and time of the request.
func sign(key []byte, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// newProgram makes a handler that starts a command for every message. Its answer is what the command writes to stdout.
func newProgram(command string, l *handler.Launcher, timeout time.Duration) *outside {
	o, stderr := newOutside(timeout), handler.NewOutput(os.Stderr, nil)
	o.handle = func(ctx context.Context, d *pawl.Delivery) error {
		var said bounded
		h := exec.New(exec.Config{Launcher: l, Command: command, Stdout: handler.NewOutput(&said, nil), Stderr: stderr})
		if err := h.Handle(ctx, d); err != nil {
			return err
		}
		if said.over {
			return pawl.Permanent(pawl.OfKind(KindHandler,
				fmt.Errorf("the handler's answer has more than %d MiB", maxHandlerAnswer>>20)))
		}
		o.put(d, said.Bytes())
		return nil
	}
	return o
}

// newKept makes a handler whose command is kept running. Its answer is the member output of a verdict.
func newKept(command string, concurrency int, l *handler.Launcher, timeout time.Duration, log *slog.Logger) (*outside,
	*pipe.Pipe) {
	o := newOutside(timeout)
	p := pipe.Start(pipe.Config{Launcher: l, Command: command, Children: min(concurrency, maxChildren),
		Stderr: handler.NewOutput(os.Stderr, nil), Logger: log, Output: o.put})
	o.handle = p.Handle
	return o, p
}

func (o *outside) put(d *pawl.Delivery, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outputs[d.Token] = text
}

// Answer implements [Handler].
func (o *outside) Answer(ctx context.Context, d *pawl.Delivery) (Answer, error) {
	call, cancel := context.WithTimeoutCause(ctx, o.timeout, errors.New("timeout"))
	defer cancel()
	err := o.handle(call, d)
	o.mu.Lock()
	text := o.outputs[d.Token]
	delete(o.outputs, d.Token)
	o.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err != nil && call.Err() != nil:
		return Answer{}, policy.With(pawl.OfKind(KindHandler, fmt.Errorf("no answer within %v", o.timeout)),
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

// bounded keeps what is written, up to a limit. An Output writes to it, which takes one writer at a time.
type bounded struct {
	bytes.Buffer
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > maxHandlerAnswer {
		b.over = true
		return len(text), nil
	}
	return b.Buffer.Write(text)
}
