package terminal

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Output is where data goes. Its errors are [*OutputError]s: what cannot be printed
// is another matter than what cannot be done, and a connection to a server that
// breaks is EPIPE, too.
type Output struct{ To io.Writer }

// Write implements io.Writer.
func (o Output) Write(b []byte) (int, error) {
	n, err := o.To.Write(b)
	if err != nil {
		err = &OutputError{err}
	}
	return n, err
}

// OutputError is why stdout cannot be written.
type OutputError struct{ err error }

func (e *OutputError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.err }

// WithoutPipes is err without errors of a closed pipe on stdout. Other errors remain.
func WithoutPipes(err error) error {
	lost, ok := errors.AsType[*OutputError](err)
	if !ok {
		return err
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, part := range several.Unwrap() {
			rest = append(rest, WithoutPipes(part))
		}
		return errors.Join(rest...)
	}
	if errors.Is(lost.err, syscall.EPIPE) || errors.Is(lost.err, io.ErrClosedPipe) { // the reader has gone away
		return nil
	}
	return err
}

// Progress shows on a terminal how far something came, a few times a second.
type Progress struct {
	w     io.Writer // nil: nothing is shown
	what  string
	began time.Time
	shown time.Time
}

// NewProgress begins; w is a terminal, or nil.
func NewProgress(w io.Writer, what string) *Progress {
	return &Progress{w: w, what: what, began: time.Now(), shown: time.Now()}
}

// At says that n are done.
func (p *Progress) At(n int64) {
	now := time.Now()
	if p.w == nil || now.Sub(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown = now
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%d %s, %.0f a second", n, p.what, float64(n)/now.Sub(p.began).Seconds())
}

// End removes the line.
func (p *Progress) End() {
	if p.w != nil && p.shown != p.began {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
