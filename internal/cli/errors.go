package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// The exit codes, a contract with scripts.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitPartly      = 3
	exitUnfinished  = 4
	exitConflict    = 5
	exitNotFound    = 6
	exitFound       = 7
	exitForbidden   = 8
	exitTryAgain    = 75
	exitInterrupted = 130
)

// problem is an error with what a person needs: what went wrong, why, and what to
// do next. Parts that are empty follow from err.
type problem struct {
	code int
	what string
	err  error
	next string
}

func (p *problem) Error() string {
	if p.err == nil {
		return p.what
	}
	return p.what + ": " + p.err.Error()
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.err }

// cannot says what could not be done because of err; nil for none.
func cannot(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	_, told := errors.AsType[*problem](err)
	if _, lost := errors.AsType[*terminal.OutputError](err); lost || told {
		return err
	}
	return &problem{what: "cannot " + fmt.Sprintf(what, args...), err: err}
}

// usage is an error in the command line.
func usage(next, why string, args ...any) error {
	return &problem{code: exitUsage, what: "invalid command line", err: fmt.Errorf(why, args...), next: next}
}

// end prints what an error says and returns the exit code.
func (s *session) end(err error) int {
	if err = terminal.WithoutPipes(err); err == nil {
		return exitOK
	}
	p, ok := errors.AsType[*problem](err)
	if _, lost := errors.AsType[*terminal.OutputError](err); lost && !ok {
		p = &problem{what: "the output cannot be written", err: err,
			next: "make room, or send the output elsewhere; what the command changed stays changed: check before you repeat it"}
	} else if !ok {
		p = &problem{what: "invalid command line", err: err}
	}
	code, next := classify(err)
	if p.code != 0 {
		code = p.code
	}
	if p.next != "" {
		next = p.next
	}
	s.complain("error: ", p.what)
	why := p.err
	if why == nil {
		why = errors.New("see above")
	}
	s.complain("  why:  ", why.Error())
	s.complain("  next: ", s.here(next))
	return code
}

// commandIn finds commands of Pawl in a text.
var commandIn = regexp.MustCompile(`\bpawl [a-z]+( [a-z-]+)*( --help)?`)

// here makes the commands of a hint work as they stand: with the configuration and the store that this one was given.
func (s *session) here(hint string) string {
	given := "pawl"
	if s.configPath != "" {
		given += " --config " + operate.ShellWord(s.configPath)
	}
	if s.storeURL != "" {
		given += " --store " + operate.ShellWord(redact.URL(s.storeURL)) // it names the store, if not its password
	}
	return commandIn.ReplaceAllStringFunc(hint, func(command string) string {
		if without(command) || strings.HasSuffix(command, " --help") {
			return command
		}
		return given + strings.TrimPrefix(command, "pawl")
	})
}

// without reports whether a command has no use for a store.
func without(command string) bool {
	return slices.ContainsFunc(append([]string{"pawl help"}, storeless...), func(c string) bool {
		return strings.HasPrefix(command, c)
	})
}

// complain prints a line of an error; where it has several, the others follow
// indented.
func (s *session) complain(label, text string) {
	text = clean(s.redactor.Redact(strings.TrimSpace(text)))
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(label)))
	_, _ = fmt.Fprintln(s.Err, label+text)
}

// classify finds the exit code and the next step for an error that says neither.
func classify(err error) (code int, next string) {
	code, next = classifyStore(err)
	_, invalid := errors.AsType[*pawl.InvalidError](err)
	switch {
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted, "run it again"
	case invalid:
		return exitUsage, "correct it"
	case errors.Is(err, open.ErrURL):
		return exitUsage, cmp.Or(store.Hint(err),
			"give --store or PAWL_STORE, such as sqlite:pawl.db; `pawl stores` shows what there is")
	case errors.Is(err, syscall.EISDIR):
		return exitUsage, "name a file, not a folder"
	case errors.Is(err, serve.ErrNeverReady):
		return exitFailure, "run the program by hand and see why it ends; nothing was counted as failed"
	}
	return code, cmp.Or(store.Hint(err), next)
}

// storeProblems are the codes of stores with the exit code and the next step; the first that matches counts.
var storeProblems = []struct {
	err  error
	code int
	next string
}{
	{store.ErrUnavailable, exitTryAgain, "see that the server runs and can be reached, then run it again"},
	{store.ErrNotFound, exitNotFound, "look with `pawl messages ls`, `pawl dead ls` or `pawl topics ls`"},
	{store.ErrConflict, exitConflict, "check the current state, then decide"},
	{store.ErrSchema, exitConflict, "run `pawl migrate up`, or add --auto-migrate"},
	{store.ErrDenied, exitForbidden, "ask for the permission, or use another account"},
	{store.ErrUnsupported, exitUsage, "`pawl stores` shows what each store can do"},
	{store.ErrInvalid, exitUsage, "correct it; `pawl help` lists the commands"},
	{store.ErrTooLarge, exitUsage, "correct it; `pawl help` lists the commands"},
	{store.ErrFull, exitFailure, "make room, then run it again"},
	{store.ErrCorrupt, exitFailure, "stop all workers, keep a copy of the data, and restore a backup"},
}

func classifyStore(err error) (code int, next string) {
	if full, ok := errors.AsType[*store.TopicFullError](err); ok {
		return exitFailure, fmt.Sprintf("run it again in %v; `pawl topics set %s` shows how many messages may wait",
			full.RetryAfter.Round(time.Millisecond), full.Topic)
	}
	for _, p := range storeProblems {
		if errors.Is(err, p.err) {
			return p.code, p.next
		}
	}
	return exitFailure, "run it again; if it happens again, report it with these lines"
}

// noTemporary is the error of a temporary file or folder that cannot be made.
func noTemporary(err error, what string) error {
	return &problem{what: what, err: err, next: "make room in the folder for temporary files, or set TMPDIR to another one"}
}
