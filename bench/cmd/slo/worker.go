package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/open"
)

// How a worker behaves: it works until the topic is empty, for ever, or holds what it gets for ever.
const (
	empties = "empties"
	forever = "forever"
	holds   = "holds"
)

// worker is this program as a process of its own: slo worker URL TOPIC LEASE MODE. It says "ready", waits for a line, and
// at the end says when it began its last message.
func worker() error {
	if len(os.Args) != 6 {
		return errors.New("a worker is started by the program itself")
	}
	address, topic, mode := os.Args[2], os.Args[3], os.Args[5]
	lease, err := time.ParseDuration(os.Args[4])
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := open.Open(ctx, open.Config{URL: address})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var last atomic.Int64
	d, err := dispatch.New(s, dispatching(topic, lease, mode == empties, func() {
		now := time.Now().UnixNano()
		if was := last.Swap(now); mode == forever && now-was > int64(50*time.Millisecond) {
			fmt.Println("works")
		}
		if mode == holds {
			fmt.Println("holds")
			select {}
		}
	}, nil))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	go func() { // it ends with the program that started it
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	err = d.Run(ctx)
	fmt.Println(last.Load())
	return err
}

// dispatching is a dispatcher of a topic with a handler that does nothing but call.
func dispatching(topic string, lease time.Duration, untilEmpty bool, call func(), o dispatch.Observer) dispatch.Config {
	h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { call(); return nil })
	return dispatch.Config{UntilEmpty: untilEmpty, Observer: o, Logger: slog.New(slog.DiscardHandler),
		Unregistered: true, Topics: []dispatch.Topic{{Name: topic, Handler: h, Lease: lease, Concurrency: 64}}}
}

// process is a worker in a process of its own.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a worker that waits for go. It is killed when ctx ends.
func (at *site) start(ctx context.Context, topic string, lease time.Duration, mode string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, os.Args[0], "worker", at.url, topic, lease.String(), mode)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	_, err = p.says("ready")
	return p, err
}

// says reads a line; if what is not empty, it has to be that.
func (p *process) says(what string) (string, error) {
	line, err := p.out.ReadString('\n')
	line = strings.TrimSpace(line)
	if err != nil || what != "" && line != what {
		return line, fmt.Errorf("a worker said %q, not %q: %w", line, what, err)
	}
	return line, nil
}

func (p *process) begin() error { _, err := fmt.Fprintln(p.in); return err }

// kill is kill -9.
func (p *process) kill() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() }
