package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// System is the world around a command.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Terminals tells which of In, Out and Err are one.
	InTerminal, OutTerminal, ErrTerminal bool
}

// ErrInterrupted is why the context of a command ended: a signal came.
var ErrInterrupted = errors.New("interrupted")

// Main runs the command line of this process and returns its exit code. The
// first signal asks the command to end, the second one ends the process.
func Main(version string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it stays ignored
		signal.Notify(signals, syscall.SIGHUP)
	}
	// Caught, and not ignored, so that a closed pipe is an error of a write and
	// the programs that we start keep the signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		<-signals
		cancel(ErrInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return Run(ctx, version, os.Args[1:], System{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		InTerminal: terminal(os.Stdin), OutTerminal: terminal(os.Stdout), ErrTerminal: terminal(os.Stderr),
	})
}

// Run runs one command and returns the exit code.
func Run(ctx context.Context, version string, args []string, sys System) int {
	s := newSession(version, sys)
	root := s.root()
	root.SetArgs(args)
	root.SetIn(sys.In)
	root.SetOut(sys.Out)
	root.SetErr(sys.Err)
	err := root.ExecuteContext(ctx)
	return s.end(errors.Join(err, s.close()))
}

// terminal tells whether f is one: a character device that is not the null one.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
