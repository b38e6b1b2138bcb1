package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// session is one run of the command line: the world around it, the global flags,
// and the store once it is open.
type session struct {
	System
	version  string
	redactor *redact.Redactor

	storeURL    string
	configPath  string
	fromFile    string // the store that the configuration file names
	mirrorURL   string
	mirrorFile  string // the mirror that the configuration file names
	output      string
	wide        bool
	quiet       bool
	noColor     bool
	yes         bool
	dryRun      bool
	autoMigrate bool

	editorOut io.Writer        // stderr itself, for programs that take the terminal over
	screen    *terminal.Screen // of stderr, if it is a terminal
	notes     sync.Mutex
	troubled  string // what trouble said last
	opened    store.Store
	inside    *inside       // of a command that a server carries out for somebody
	more      []store.Store // besides it
	tracer    *trace.Tracer // nil: nothing is traced
	log       *logs.Log     // of a daemon
	pipes     []*logs.Pipe  // of a command that must not wait for who reads its output
	out       *bufio.Writer

	kindsOnce sync.Once
	allKinds  []*pipeline.Kind
}

// kinds are those of all pipelines. They are made once: a daemon reads its file each second, and needs them for that.
func (s *session) kinds() []*pipeline.Kind {
	s.kindsOnce.Do(func() { s.allKinds = serve.Kinds() })
	return s.allKinds
}

func newSession(version string, sys System) *session {
	s := &session{System: sys, editorOut: sys.Err, version: version, redactor: redact.New(sys.Getenv("PAWL_STORE"),
		sys.Getenv("PAWL_MIRROR")), out: bufio.NewWriterSize(sys.Out, 64<<10)}
	if sys.ErrTerminal && sys.Columns != nil {
		s.screen = terminal.NewScreen(sys.Err, sys.Columns)
		s.Err = s.screen
	}
	return s
}

// board shows lines at the bottom of the terminal until they are nil; nil where stderr is none.
func (s *session) board() func(lines []string) {
	if s.screen == nil {
		return nil
	}
	return func(lines []string) {
		if lines == nil {
			s.screen.End()
			return
		}
		shown := make([]string, len(lines))
		for i, line := range lines {
			shown[i] = s.redactor.Redact(line)
		}
		s.screen.Show(shown)
	}
}

// close closes the store and prints what is left.
func (s *session) close() error {
	err := s.out.Flush()
	s.endTraces()
	for _, opened := range append([]store.Store{s.opened}, s.more...) {
		if opened != nil {
			err = cmp.Or(err, cannot(opened.Close(), "close the store"))
		}
	}
	return err
}

// url is the store's, by flag, environment, file or default.
func (s *session) url() string {
	return cmp.Or(s.storeURL, s.Getenv("PAWL_STORE"), s.fromFile, open.DefaultStore)
}

// target is the store to which topics move; empty for none.
func (s *session) target() string {
	return cmp.Or(s.mirrorURL, s.Getenv("PAWL_MIRROR"), s.mirrorFile)
}

// mirror is that store, unless a flag names it as the store itself: then the command is
// about that store, not about the one from which topics move.
func (s *session) mirror() string {
	if s.mirrorURL == "" && s.storeURL != "" && open.SameStore(s.storeURL, s.target()) {
		return ""
	}
	return s.target()
}

// open opens the store, which has to be there: a command that looks, or changes what is there, makes no new file in
// a folder that it was run in by mistake.
func (s *session) open(ctx context.Context) (store.Store, error) {
	return s.openAs(ctx, open.Config{AutoMigrate: s.autoMigrate, Existing: true})
}

// openOrMake opens the store, and makes an embedded one that is not there: for commands that bring work.
func (s *session) openOrMake(ctx context.Context) (store.Store, error) {
	c, err := s.loadFile("traces")
	if err == nil {
		err = s.trace(ctx, c, s.warnings())
	}
	if err != nil {
		return nil, err
	}
	return s.openAs(ctx, open.Config{AutoMigrate: s.autoMigrate})
}

// openAs opens the store, with the mirror over it if there is one.
func (s *session) openAs(ctx context.Context, c open.Config) (store.Store, error) {
	if s.inside != nil {
		s.opened = s.inside.store
		return s.opened, nil
	}
	opened, err := s.openAlone(ctx, c)
	if err != nil {
		return nil, err
	}
	if s.mirror() == "" || c.NoCheck {
		return s.tracer.Store(opened), nil
	}
	if open.SameStore(s.mirror(), s.url()) {
		return nil, usage("name the new store: --mirror, PAWL_MIRROR or mirror: in the configuration file",
			"the mirror is the store itself")
	}
	report := func(err error) { s.note("mirror: %v", err) }
	over, err := open.Mirror(opened, open.Config{URL: s.mirror(), AutoMigrate: c.AutoMigrate, Logger: c.Logger}, report)
	if err != nil {
		return nil, cannot(err, "open the mirror %s", redact.URL(s.mirror()))
	}
	s.opened = over
	return s.tracer.Store(over), nil
}

// openAlone opens the store without its mirror.
func (s *session) openAlone(ctx context.Context, c open.Config) (store.Store, error) {
	if err := s.findStore(); err != nil {
		return nil, err
	}
	c.URL = s.url()
	c.Existing = c.Existing || s.dryRun // a new store would be a change
	s.redactor.LearnURLs(c.URL, s.mirror())
	c.Created = func(path string) { s.note("%s did not exist: it is a new, empty store", path) }
	c.Waiting = func(path string) {
		s.note("%s is locked: another process has a write transaction open on it (`fuser %s` names it); waiting",
			path, path)
	}
	if c.Logger == nil {
		c.Logger = s.warnings()
	}
	opened, err := open.Open(ctx, c)
	if err != nil {
		return nil, cannot(err, "open the store %s", redact.URL(c.URL))
	}
	s.opened = opened
	return opened, nil
}

// unblock makes writes to stdout and stderr no longer wait for their readers. It returns the streams themselves, for a
// log, which does not wait for them either.
func (s *session) unblock() (stdout, stderr io.Writer) {
	stdout, stderr = &shared{w: s.Out}, &shared{w: s.Err}
	out, errs := logs.NewPipe("stdout", stdout), logs.NewPipe("stderr", stderr)
	s.Out, s.Err, s.pipes = out, errs, []*logs.Pipe{out, errs}
	return stdout, stderr
}

// shared is a stream of two writers.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// sinks are the counts of the log and of what programs print.
func (s *session) sinks() []figures.LogSink {
	all := s.log.Figures()
	for _, p := range s.pipes {
		all = append(all, p.Figures())
	}
	return all
}

// closeLog writes what is left of the log.
func (s *session) closeLog() {
	if s.log != nil {
		s.log.Close()
	}
}

// flush passes on what is left of the output.
func (s *session) flush() {
	for _, p := range s.pipes {
		p.Close()
	}
}

// part opens the store and finds an optional interface of it.
func part[T any](ctx context.Context, s *session, what string, needs ...store.Capability) (T, error) {
	return partOr[T](ctx, s.open, what, needs...)
}

// partOrMake is part for a command that brings work: it makes an embedded store that is not there.
func partOrMake[T any](ctx context.Context, s *session, what string, needs ...store.Capability) (T, error) {
	return partOr[T](ctx, s.openOrMake, what, needs...)
}

func partOr[T any](ctx context.Context, open func(context.Context) (store.Store, error), what string,
	needs ...store.Capability) (T, error) {
	opened, err := open(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return partOf[T](opened, what, needs...)
}

// with is what a command runs that begins by finding an optional interface of the store.
func with[T any](s *session, what string,
	run func(c *cobra.Command, args []string, of T) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		of, err := part[T](c.Context(), s, what)
		if err != nil {
			return err
		}
		return run(c, args, of)
	}
}

func partOf[T any](opened store.Store, what string, needs ...store.Capability) (T, error) {
	t, ok := store.As[T](opened, needs...)
	if !ok {
		err := &store.Error{Op: what, Code: store.ErrUnsupported}
		return t, &problem{what: "cannot " + what, err: err}
	}
	return t, nil
}

// note prints a remark on stderr, unless --quiet is given.
func (s *session) note(what string, args ...any) {
	if !s.quiet {
		s.notes.Lock() // a store may call, too
		defer s.notes.Unlock()
		_, _ = fmt.Fprintln(s.Err, clean(s.redactor.Redact(fmt.Sprintf(what, args...))))
	}
}

// confirm asks the user. Without a terminal it needs --yes.
func (s *session) confirm(what string, args ...any) error {
	what = fmt.Sprintf(what, args...)
	if s.yes {
		return nil
	}
	if !s.InTerminal || !s.ErrTerminal {
		return &problem{
			code: exitUsage, what: "this needs confirmation: " + what,
			err: fmt.Errorf("there is no terminal to ask on"), next: "add --yes if you are sure",
		}
	}
	_, _ = fmt.Fprintf(s.Err, "%s\nGo on? [y/N] ", clean(what))
	answer, _ := bufio.NewReader(s.In).ReadString('\n')
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return &problem{code: exitFailure, what: "nothing was done", err: fmt.Errorf("it was not confirmed"),
			next: "run it again and answer y, or add --yes"}
	}
	return nil
}

// who is the name of the user in records: user and host.
func (s *session) who() string {
	if s.inside != nil {
		return s.inside.who
	}
	name := cmp.Or(s.Getenv("USER"), s.Getenv("LOGNAME"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return cmp.Or(name, "somebody") + "@" + cmp.Or(host, "localhost")
}
