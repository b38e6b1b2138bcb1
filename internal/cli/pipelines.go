package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) pipelines() *cobra.Command {
	return noun("pipelines", "List, pause and resume pipelines",
		`A pipeline is a section under pipelines in the configuration file of the daemon.
Its topics are called NAME.STAGE and are topics like any other.`,
		s.pipelinesLs(), s.pipelinesPause(), s.pipelinesResume())
}

func (s *session) pipelinesLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List pipelines and what waits in them", Args: count(0, 0, "nothing"),
		Example: `  pawl pipelines ls
  pawl pipelines ls -o json`,
		RunE: with(s, "list pipelines", func(c *cobra.Command, _ []string, opened store.Store) error {
			all, err := operate.Pipelines(c.Context(), opened)
			if err != nil {
				return cannot(err, "list pipelines")
			}
			l := s.list("PIPELINE", "KIND", "STATE", ">WAITING", ">LEASED", ">DEAD", ">OLDEST", "LAST SUCCESS", "WHY")
			for _, p := range all {
				oldest := asDuration(p.OldestWaitingSeconds)
				l.add(p, p.Name, p.Kind, p.State, number(p.Waiting), number(p.Leased), number(p.Dead),
					age(oldest), s.atp(p.LastSuccessAt), p.Why)
			}
			return l.end("no daemon has run a pipeline on this store")
		}),
	}
}

func (s *session) pipelinesPause() *cobra.Command {
	var d flag.Duration
	var reason string
	c := &cobra.Command{
		Use: "pause NAME", Short: "Pause all topics of a pipeline", Args: count(1, 1, "one pipeline"),
		Long:    "Pauses every topic of a pipeline in every process; what is running finishes. It never asks for confirmation.",
		Example: `  pawl pipelines pause search --for 10m --reason "the index is being moved"`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.onPipeline(c.Context(), "pause", args[0], reason, func(on store.Topics, topic string) error {
				return on.Pause(c.Context(), topic, time.Duration(d), s.who(), reason)
			})
		},
	}
	pauseFlags(c, &d, &reason)
	return c
}

func (s *session) pipelinesResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a pipeline", Args: count(1, 1, "one pipeline"),
		Example: `  pawl pipelines resume search`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.onPipeline(c.Context(), "resume", args[0], "", func(on store.Topics, topic string) error {
				return on.Resume(c.Context(), topic)
			})
		},
	}
}

// onPipeline changes all topics of a pipeline, and writes that down.
func (s *session) onPipeline(ctx context.Context, action, name, reason string,
	change func(store.Topics, string) error) error {
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	if s.dryRun {
		s.note("would %s pipeline %s", action, name)
		return nil
	}
	if err := operate.EachTopic(ctx, opened, name, change); err != nil {
		return cannot(err, "%s pipeline %s", action, name)
	}
	if err := s.audit(ctx, operate.AuditEntry{Action: "pipeline " + action, Target: name, Count: 1, Reason: reason,
		Result: operate.AuditResult{Done: 1}}); err != nil {
		return err
	}
	s.note("pipeline %s: %s", name, action+"d")
	return nil
}

// addPipelines adds the commands that kinds of pipelines bring. Nouns of one name, such as chaos, are joined.
func (s *session) addPipelines(root *cobra.Command) {
	for _, k := range serve.Kinds() {
		for i := range k.Commands {
			s.addCommand(root, &k.Commands[i], groupPipelines)
		}
	}
}

func (s *session) addCommand(parent *cobra.Command, c *pipeline.Command, group string) {
	made := s.pipelineCommand(c)
	for _, there := range parent.Commands() {
		if there.Name() == made.Name() {
			for i := range c.Commands {
				s.addCommand(there, &c.Commands[i], "")
			}
			return
		}
	}
	made.GroupID = group
	parent.AddCommand(made)
}

func (s *session) pipelineCommand(c *pipeline.Command) *cobra.Command {
	if c.Run == nil {
		made := noun(c.Use, c.Short, c.Long)
		for i := range c.Commands {
			s.addCommand(made, &c.Commands[i], "")
		}
		return made
	}
	what := c.Args
	if what == "" {
		what = "no arguments"
	}
	made := &cobra.Command{Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example,
		Args: count(c.MinArgs, c.MaxArgs, what)}
	switch c.Effect {
	case pipeline.Looks:
		looks(made)
	case pipeline.Changes:
		changes(made)
	}
	values := make([]func() (any, error), len(c.Flags))
	for i := range c.Flags {
		values[i] = addFlag(made.Flags(), &c.Flags[i])
	}
	made.RunE = func(command *cobra.Command, args []string) error {
		flags, err := flagValues(command, c.Flags, values)
		if err != nil {
			return err
		}
		if err := s.findStore(); err != nil {
			return err
		}
		in, err := s.invocation(args, flags, c.Effect)
		if err != nil {
			return err
		}
		s.autoMigrate = s.autoMigrate || c.Migrates
		return failed(command.CommandPath(), fromPipeline(c.Run(command.Context(), in)))
	}
	for i := range c.Commands {
		s.addCommand(made, &c.Commands[i], "")
	}
	return made
}

// fromPipeline gives an error of a command the form of this command line's.
func fromPipeline(err error) error {
	if e, ok := errors.AsType[*pipeline.Error](err); ok {
		return &problem{code: e.Code, what: e.What, err: e.Err, next: e.Next}
	}
	return err
}

// failed names the command whose error says nothing of itself.
func failed(path string, err error) error {
	if _, ok := errors.AsType[*problem](err); ok || err == nil {
		return err
	}
	if _, lost := errors.AsType[*terminal.OutputError](err); lost {
		return err
	}
	return &problem{what: "`" + path + "` failed", err: err}
}

// addFlag adds a flag. Its value is a text first: the types that cobra does not know are read like in the
// configuration file.
func addFlag(fs *pflag.FlagSet, f *pipeline.Flag) (value func() (any, error)) {
	defer func() { fs.Lookup(f.Name).Annotations = map[string][]string{noteChoices: f.Choices} }()
	switch f.Type {
	case pipeline.Bool:
		v := fs.Bool(f.Name, f.Default == "true", f.Doc)
		return func() (any, error) { return *v, nil }
	case pipeline.Texts:
		v := fs.StringArray(f.Name, nil, f.Doc)
		return func() (any, error) { return *v, nil }
	}
	v := fs.StringP(f.Name, f.Letter, f.Default, f.Doc)
	return func() (any, error) { return readFlag(f, *v) }
}

func readFlag(f *pipeline.Flag, text string) (any, error) {
	switch f.Type {
	case pipeline.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--%s must be a whole number (got %q)", f.Name, text)
		}
		return n, nil
	case pipeline.Number:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("--%s must be a number (got %q)", f.Name, text)
		}
		return n, nil
	case pipeline.Duration:
		return flagOf(f.Name)(wire.ParseDuration(text))
	case pipeline.Moment:
		p := flag.Point{Back: true}
		err := p.Set(text)
		return flagOf(f.Name)(p.Time, err)
	case pipeline.Rate:
		return flagOf(f.Name)(config.ParseRate(text))
	case pipeline.Size:
		return flagOf(f.Name)(config.ParseSize(text))
	case pipeline.Choice:
		if !slices.Contains(f.Choices, text) {
			return nil, fmt.Errorf("--%s must be one of %v (got %q)", f.Name, f.Choices, text)
		}
	}
	return text, nil
}

func flagOf(name string) func(v any, err error) (any, error) {
	return func(v any, err error) (any, error) {
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		return v, nil
	}
}

// flagValues reads all flags and reports everything that is wrong with them.
func flagValues(c *cobra.Command, flags []pipeline.Flag, values []func() (any, error)) (pipeline.Values, error) {
	all, changed := map[string]any{}, map[string]bool{}
	var errs []error
	for i := range flags {
		f := &flags[i]
		changed[f.Name] = c.Flags().Changed(f.Name)
		if !changed[f.Name] && f.Default == "" && f.Type != pipeline.Bool {
			continue
		}
		v, err := values[i]()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all[f.Name] = v
	}
	if err := errors.Join(errs...); err != nil {
		return pipeline.Values{}, usage(fmt.Sprintf("run `%s --help` for its flags", c.CommandPath()), "%w", err)
	}
	return pipeline.NewValues(flags, all, changed), nil
}

// invocation is what a command of a pipeline gets.
func (s *session) invocation(args []string, flags pipeline.Values, effect pipeline.Effect) (*pipeline.Invocation, error) {
	matrix, err := s.matrix()
	if err != nil {
		return nil, err
	}
	return &pipeline.Invocation{
		Args: args, Flags: flags, Stdin: s.In, Stdout: &locked{w: s.Out}, Stderr: &locked{w: redacting{s}},
		Output: s.output, Quiet: s.quiet, NoColor: s.noColor || s.Getenv("NO_COLOR") != "", Yes: s.yes,
		DryRun:   s.dryRun,
		Terminal: s.ErrTerminal, Show: s.board(), Getenv: s.Getenv, Logger: s.warnings(), Version: s.version,
		Owner: serve.Owner("", time.Now()), Who: s.who(),
		StoreURL: s.url(), StoreGiven: s.url() != open.DefaultStore || s.storeURL != "",
		Open: func(ctx context.Context, url string, existing bool) (store.Store, error) {
			return s.openFor(ctx, open.Config{URL: url, AutoMigrate: s.autoMigrate, Existing: existing,
				Look: existing && effect == pipeline.Looks})
		},
		Confirm:   func(what string) error { return s.confirm("%s", what) },
		Pipelines: s.sections, Section: s.sectionOf, Top: s.topSection, Rows: s.rows, Document: s.document,
		Audit:  s.auditFor,
		Policy: matrix,
	}, nil
}

// openFor opens a store for a command of a pipeline.
func (s *session) openFor(ctx context.Context, c open.Config) (store.Store, error) {
	if c.URL == "" && s.opened == nil {
		return s.openAs(ctx, c)
	}
	if c.URL == "" {
		return s.opened, nil
	}
	s.redactor.LearnURLs(c.URL)
	c.Logger = s.warnings()
	opened, err := open.Open(ctx, c)
	if err != nil {
		return nil, cannot(err, "open the store %s", redact.URL(c.URL))
	}
	s.more = append(s.more, opened)
	return opened, nil
}

// sections are those of the configuration file of one kind of pipeline.
func (s *session) sections(kind string) (map[string]pipeline.Section, error) {
	c, err := s.loadFile("pipelines")
	if err != nil {
		return nil, err
	}
	all := map[string]pipeline.Section{}
	for _, p := range c.Pipelines {
		if p.Kind.Name == kind {
			all[p.Name] = p.Section
		}
	}
	return all, nil
}

// sectionOf reads a file with one section of a kind.
func (s *session) sectionOf(path, kind string) (pipeline.Section, error) {
	src, err := s.source(path)
	if err != nil {
		return pipeline.Section{}, err
	}
	i := slices.IndexFunc(src.Kinds, func(k *pipeline.Kind) bool { return k.Name == kind })
	section, secrets, err := config.LoadSection(src, src.Kinds[i])
	s.redactor.Learn(secrets...)
	return section, err
}

func (s *session) topSection(name string) (pipeline.Section, error) {
	c, err := s.loadFile(name, "pipelines")
	if err != nil {
		return pipeline.Section{}, err
	}
	return c.Top(name)
}

// rows prints a list of any type.
func (s *session) rows(columns []string, rows any, cells func(i int) []string) error {
	l, all := s.list(columns...), reflect.ValueOf(rows)
	for i := range all.Len() {
		l.add(all.Index(i).Interface(), cells(i)...)
	}
	return l.end("there are none")
}

func (s *session) document(v any, text func(w io.Writer) error) (failed error) {
	err := s.one(v, func(w io.Writer) { failed = terminal.Cleaned(w, text) })
	return errors.Join(failed, err)
}

func (s *session) auditFor(ctx context.Context, on store.Store, action, subject string, n int, result string) error {
	return operate.Audit(ctx, on, operate.AuditEntry{Who: s.who(), Action: action, Target: subject, Count: int64(n),
		Change: result, Result: operate.AuditResult{Done: int64(n)}})
}

// locked lets several goroutines write.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
