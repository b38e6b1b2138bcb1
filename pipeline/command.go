package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Command is a command of the command line, or a noun with subcommands. The host handles the global flags (--store,
// --config, -o, -q, --yes, --dry-run, --no-color).
type Command struct {
	Use     string // name and arguments: "crawl URL…"
	Short   string // one line
	Long    string
	Example string
	Flags   []Flag
	// MinArgs and MaxArgs bound the arguments; MaxArgs < 0 is no bound. Args names them in errors: "URLs".
	MinArgs, MaxArgs int
	Args             string
	// Migrates brings the schema of the stores that it opens up to date: a command that prepares a database.
	Migrates bool
	// Effect says whether the API and the console offer it.
	Effect Effect
	// Run carries it out. ctx ends with the first SIGINT or SIGTERM: the command drains then. nil: a noun.
	Run      func(ctx context.Context, in *Invocation) error
	Commands []Command
}

// Effect is what a command does to the store and the systems that its pipeline uses.
type Effect uint8

// The effects.
const (
	Local   Effect = iota // for the command line only: it needs a file or the terminal, or has a route of the API
	Looks                 // it changes nothing
	Changes               // it changes something, and audits that
)

// Flag is a flag of a command.
type Flag struct {
	Name    string
	Letter  string // a short form; empty: none
	Doc     string // `VALUE` in backquotes names the value in the help
	Type    Type   // a scalar, or Texts
	Default string
	Choices []string
}

// Invocation is the context of one run of a command.
type Invocation struct {
	Args  []string
	Flags Values
	Stdin io.Reader
	// Stdout gets data, Stderr everything else, with secrets masked. Both are safe for concurrent use.
	Stdout, Stderr io.Writer
	// Output is how data is printed: table, json or jsonl.
	Output         string
	Quiet, NoColor bool
	Yes, DryRun    bool
	// Show draws lines at the bottom of the terminal, in place of those before; what is logged appears above
	// them. Without lines they stay where they are. nil: there is no terminal. See [Board].
	Show func(lines []string)
	// Terminal tells that Stderr is a terminal.
	Terminal bool
	Getenv   func(string) string
	Logger   *slog.Logger
	Version  string
	Owner    string // this process, in leases
	Who      string // the person, in audits
	// StoreURL is the store of the command line, the environment or the file; StoreGiven is false if it is the
	// default of all commands, which a command may replace by its own.
	StoreURL   string
	StoreGiven bool
	// Open opens a store and creates or migrates an embedded one; existing refuses one that is not there, and opens it
	// for reading only where the command only [Looks]: leases that are over are shown as such, not taken back. The host
	// closes it. An empty URL is StoreURL.
	Open func(ctx context.Context, url string, existing bool) (store.Store, error)
	// Policy is the matrix with the rules of all kinds and the overrides of the file.
	Policy policy.Policy
	// Pipelines returns the sections of the configuration file of one kind, by name; none if there is no file.
	Pipelines func(kind string) (map[string]Section, error)
	// Section reads a file that holds one section of a kind, as it could stand under pipelines.
	Section func(path, kind string) (Section, error)
	// Top returns the section that [Kind.Top] describes.
	Top func(name string) (Section, error)
	// Rows prints a list: a table with these columns, or JSON. rows is a slice of structs with json tags; cells
	// gives the columns of one of them.
	Rows func(columns []string, rows any, cells func(i int) []string) error
	// Document prints one object: as JSON, or what text writes.
	Document func(v any, text func(w io.Writer) error) error
	// Confirm asks; without a terminal it needs --yes, and the error says so.
	Confirm func(what string) error
	// Audit records a change that a person made, for `pawl audit ls`.
	Audit func(ctx context.Context, s store.Store, action, subject string, count int, result string) error
}

// Which is the flag by which a command names a pipeline of its kind.
func Which() Flag {
	return Flag{Name: "pipeline",
		Doc: "`NAME` of the pipeline; not needed if the configuration file has one of this kind"}
}

// Chosen returns the name and the section of the pipeline that the flag of [Which] names, or of the only one of a kind
// that the configuration file has.
func (in *Invocation) Chosen(kind string) (name string, s Section, err error) {
	all, err := in.Pipelines(kind)
	if err != nil {
		return "", s, err
	}
	names := slices.Sorted(maps.Keys(all))
	name = in.Flags.Text("pipeline")
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	switch {
	case len(names) == 0:
		err = &Error{Code: ExitUsage, What: "the configuration has no pipeline of the kind " + kind,
			Next: "name the file with --config; docs/pipelines/" + kind + ".md has an example"}
	case name == "":
		err = &Error{Code: ExitUsage, What: "there are several pipelines of the kind " + kind,
			Next: "choose one with --pipeline: " + strings.Join(names, ", ")}
	case !slices.Contains(names, name):
		err = &Error{Code: ExitNotFound, What: "there is no pipeline " + name,
			Next: "there are " + strings.Join(names, ", ")}
	}
	return name, all[name], err
}

// Print prints one object: as JSON, or as a formatted text.
func (in *Invocation) Print(v any, format string, args ...any) error {
	return in.Document(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// Values are the flags of an invocation. Reading one that the command does not have panics.
type Values struct {
	Section
	changed map[string]bool
}

// NewValues makes values of flags. The host calls it, and tests do.
func NewValues(flags []Flag, values map[string]any, changed map[string]bool) Values {
	fields := make([]Field, len(flags))
	for i, f := range flags {
		fields[i] = Field{Name: f.Name, Type: f.Type}
	}
	return Values{NewSection(fields, values), changed}
}

// Changed reports whether a flag was given.
func (v Values) Changed(name string) bool { return v.changed[name] }

// Exit codes of commands, as DESIGN.md has them.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitPartly      = 3 // some of the work became dead letters
	ExitUnfinished  = 4 // it can be resumed
	ExitConflict    = 5
	ExitNotFound    = 6
	ExitProblems    = 7 // a check found problems
	ExitForbidden   = 8
	ExitInterrupted = 130
)

// Some is a number of things in a sentence: one, or many.
func Some[N int | int64](n N, one, many string) string {
	if n != 1 {
		one = many
	}
	return fmt.Sprint(n, " ", one)
}

// Error is an error of a command or of [Kind.New] for the user: what failed, why, and what to do next.
type Error struct {
	Code int // 0 is ExitFailure
	What string
	Err  error // why; may be nil
	Next string
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns why.
func (e *Error) Unwrap() error { return e.Err }

// Fatal marks an error of [Pipeline.Run] that must end the daemon: its configuration is wrong, and retrying will
// not help.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatal{err}
}

// IsFatal reports whether [Fatal] made the error.
func IsFatal(err error) bool {
	_, ok := errors.AsType[*fatal](err)
	return ok
}

type fatal struct{ err error }

func (f *fatal) Error() string { return f.err.Error() }
func (f *fatal) Unwrap() error { return f.err }

// ShellWord returns a text as a word of a command line, quoted where a shell needs it.
func ShellWord(text string) string {
	if !strings.ContainsAny(text, " \t\n*?[]{}()<>|&;$`\\\"'~#!") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
