package cli

import (
	"errors"
	"io"
	"syscall"
)

// stdout is where data goes. Its errors are [*outputError]s: what cannot be printed
// is another matter than what cannot be done, and a connection to a server that
// breaks is EPIPE, too.
type stdout struct{ w io.Writer }

func (o stdout) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

// outputError is why stdout cannot be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *outputError) Unwrap() error { return e.err }

// closedPipe tells whether the reader of a pipe has gone away, which is how pipes
// normally end.
func (e *outputError) closedPipe() bool {
	return errors.Is(e.err, syscall.EPIPE) || errors.Is(e.err, io.ErrClosedPipe)
}

// withoutPipes is err without errors of a closed pipe on stdout. Other errors remain.
func withoutPipes(err error) error {
	lost, ok := errors.AsType[*outputError](err)
	if !ok {
		return err
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, part := range several.Unwrap() {
			rest = append(rest, withoutPipes(part))
		}
		return errors.Join(rest...)
	}
	if lost.closedPipe() {
		return nil
	}
	return err
}
