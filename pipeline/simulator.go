package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Control makes a handler of a simulator's API for people and tests: do gets the JSON of the request, and returns that
// of the answer; nil is {"ok":true}. Numbers in values of any type keep their digits. An error is answered by 400.
func Control[T any](do func(in T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		d.UseNumber()
		err := d.Decode(&in)
		var out any
		if err == nil || err == io.EOF { // without a body, in is its zero value
			out, err = do(in)
		}
		status := http.StatusOK
		switch {
		case err != nil:
			status, out = http.StatusBadRequest, map[string]string{"error": err.Error()}
		case out == nil:
			out = map[string]bool{"ok": true}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out)
	}
}

// ControlFaults is the [Control] of faults, an object of names and values, each of which it passes to set.
func ControlFaults(set func(name, value string) error) http.HandlerFunc {
	return Control(func(in map[string]any) (any, error) {
		for name, value := range in {
			if err := set(name, fmt.Sprint(value)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

const seeFaults = "add --help to see which faults there are"
