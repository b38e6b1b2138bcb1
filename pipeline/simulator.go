package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Simulate serves the simulator of a service at the address of the flag --listen until ctx ends. The greeting is a
// format for that address; it goes to stderr once clients can connect.
func Simulate(ctx context.Context, in *Invocation, h http.Handler, greeting string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", in.Flags.Text("listen"))
	if err != nil {
		return &Error{What: "the simulator cannot listen", Err: err, Next: "choose another address with --listen"}
	}
	if !in.Quiet {
		_, _ = fmt.Fprintf(in.Stderr, greeting+"\n", l.Addr())
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// SetFaults passes each NAME=VALUE of the flag --fault to set.
func SetFaults(in *Invocation, set func(name, value string) error) error {
	for _, text := range in.Flags.Texts("fault") {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return &Error{Code: ExitUsage, What: "--fault takes NAME=VALUE", Err: fmt.Errorf("got %q", text),
				Next: seeFaults}
		}
		if err := set(name, value); err != nil {
			return &Error{Code: ExitUsage, What: "--fault " + text + " cannot be set", Err: err, Next: seeFaults}
		}
	}
	return nil
}

const seeFaults = "add --help to see which faults there are"
