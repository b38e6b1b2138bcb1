package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/licences"
	"github.com/pawl-dev/pawl/internal/terminal"
)

// System is the environment of a command.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Terminals returns which of In, Out and Err are one.
	InTerminal, OutTerminal, ErrTerminal bool
	// Columns is the width of the terminal; nil, or 0: unknown.
	Columns func() int
	// Hangups takes SIGHUP over: it asks for a reload from then on, and does not end
	// the command any more. nil: there are no signals.
	Hangups func() <-chan struct{}
}

// ErrInterrupted is why the context of a command ended: a signal came.
var ErrInterrupted = errors.New("interrupted")

// Main runs the command line of this process and returns its exit code. The
// first signal asks the command to end, the second one ends the process.
func Main(version string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it stays ignored
		signal.Notify(hangups, syscall.SIGHUP)
	}
	// Caught, and not ignored, so that a closed pipe is an error of a write and
	// the programs that we start keep the signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	reloads, reloading := make(chan struct{}, 1), &atomic.Bool{}
	go func() {
		for asked := (interrupts{}); ; {
			select {
			case <-signals:
			case <-hangups:
				if reloading.Load() {
					wake(reloads)
					continue
				}
			}
			if asked.again(time.Now()) {
				os.Exit(exitInterrupted)
			}
			cancel(ErrInterrupted)
		}
	}()
	return Run(ctx, version, os.Args[1:], System{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
		Columns: func() int { return cmp.Or(terminal.Columns(os.Stderr), terminal.Columns(os.Stdout)) },
		Hangups: func() <-chan struct{} {
			reloading.Store(true)
			signal.Notify(hangups, syscall.SIGHUP)
			return reloads
		},
	})
}

// interrupts counts signals that ask for the end.
type interrupts struct{ first time.Time }

// oneRequest is how far apart the signals of one request may be: `timeout` of GNU
// and some supervisors signal a process, and then its group, which it is in.
const oneRequest = 50 * time.Millisecond

// again notes a signal, and reports whether it is the second request.
func (i *interrupts) again(now time.Time) bool {
	if i.first.IsZero() {
		i.first = now
	}
	return now.Sub(i.first) > oneRequest
}

func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run runs one command and returns the exit code.
func Run(ctx context.Context, version string, args []string, sys System) int {
	sys.Out = terminal.Output{To: sys.Out}
	s := newSession(version, sys)
	root := s.root()
	root.SetArgs(args)
	root.SetIn(sys.In)
	root.SetOut(sys.Out)
	root.SetErr(sys.Err)
	err := root.ExecuteContext(ctx)
	defer s.flush()
	err = errors.Join(err, s.close())
	s.closeLog()
	return s.end(err)
}

// isTerminal reports whether f is one: a character device that is not the null one.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// versionInfo is the JSON of `pawl version`.
type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Built   string `json:"built"` // when the commit was made
	Dirty   bool   `json:"dirty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (s *session) versionCommand() *cobra.Command {
	var legal bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: count(0, 0, "nothing"),
		Long: `Prints the version of this binary, its commit and its compiler. With --licenses it
prints the licences of everything that is linked into it instead.`,
		Example: `  pawl version
  pawl version -o json
  pawl version --licenses`,
		RunE: func(*cobra.Command, []string) error {
			if legal {
				_, err := io.WriteString(s.out, licences.Text)
				return errors.Join(err, s.out.Flush())
			}
			v := version(s.version)
			return s.one(v, func(w io.Writer) {
				fmt.Fprintf(w, "pawl %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			})
		},
	}
	c.Flags().BoolVar(&legal, "licenses", false, "print the licences of what is linked into it")
	return c
}

// version gathers what the linker and the toolchain left in the binary.
func version(stamped string) versionInfo {
	v := versionInfo{Version: stamped, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(v.Version, info.Main.Version, "devel")
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Built = setting.Value
		case "vcs.modified":
			v.Dirty = setting.Value == "true"
		}
	}
	return v
}
