package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/commands"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/open"
)

// groupPipelines is the group in the help that commands of pipelines are in.
const groupPipelines = "pipelines"

// root is the command line.
func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Bring every piece of work to completion, or to a dead letter",
		Long: `Pawl brings every piece of work to completion, or to a dead letter that you can read,
fix and replay.

Messages are appended to topics and processed by workers in any language. They are
kept in a store: a file (sqlite:PATH, the default is sqlite:pawl.db in this folder), a
server, or the memory of one process.`,
		Example: `  pawl send mail "hello"                                    # append a message
  pawl topics ls                                            # how many messages are in each state
  pawl work mail --exec 'cat; echo' --until-empty           # carry it out`,
		SilenceUsage: true, SilenceErrors: true,
		Args: unknownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return s.checkFlags(c) },
	}
	f := root.PersistentFlags()
	f.StringVar(&s.storeURL, "store", "", "store `URL` (default: $PAWL_STORE, store: in the configuration file, else "+
		open.DefaultStore+")")
	f.StringVar(&s.mirrorURL, "mirror", "",
		"`URL` of the store to which topics move; see `pawl traffic --help` (default: $PAWL_MIRROR, mirror: in the configuration file)")
	f.StringVar(&s.configPath, "config", "", "configuration `FILE` (default: "+config.DefaultFile+
		" in this folder, if it is there)")
	f.StringVarP(&s.output, "output", "o", formatTable,
		"how to print: table, wide (a table that is not cut), json (one document) or jsonl (one object per line)")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "print data and errors only")
	f.BoolVar(&s.noColor, "no-color", false, "no colours (also: NO_COLOR in the environment)")
	f.BoolVar(&s.yes, "yes", false, "answer every question with yes")
	f.BoolVar(&s.dryRun, "dry-run", false, "say what would be done, and change nothing")
	f.BoolVar(&s.autoMigrate, "auto-migrate", false, "bring the schema of a store on a server up to date")
	root.SetFlagErrorFunc(flagError)
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
		}
		root.AddCommand(commands...)
	}
	group("work", "Work:", s.send(), s.work(), s.up(), s.api(), s.console(), s.demo())
	group(groupPipelines, "Pipelines:", s.pipelines())
	group("nouns", "Look and act:", s.doctor(), s.explain(), s.topics(), s.workers(), s.messages(), s.peek(), s.cancel(),
		s.reclaim(), s.dead(), s.operationsCommand(), s.auditCommand(), s.policy(), s.skip())
	group("store", "Stores:", s.stores(), s.kafkaCommand(), s.traffic(), s.blobs(), s.migrate(),
		s.configuration(), s.bench())
	root.AddCommand(s.versionCommand(), s.docs(), completion())
	root.AddCommand(helpTopics()...)
	for _, c := range commands.All(serve.CheckState) {
		s.addCommand(root, &c, "nouns")
	}
	s.addPipelines(root)
	s.completeArguments(root)
	root.SetHelpCommand(helpCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	onlyItsFlags(root)
	return root
}

// noun is a command that only has verbs.
func noun(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: unknownCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// checkFlags checks the global flags, and learns the password in the URL. A flag
// that is given without a value is a variable of a script that is not set: a
// filter like that would select everything.
func (s *session) checkFlags(c *cobra.Command) error {
	s.redactor = redact.New(s.storeURL, s.Getenv("PAWL_STORE"), s.mirrorURL, s.Getenv("PAWL_MIRROR"))
	var empty error
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			empty = usage("give it one, or leave it out", "--%s is given without a value", f.Name)
		}
	})
	if empty != nil {
		return empty
	}
	switch s.output {
	case formatWide:
		s.wide, s.output = true, formatTable
		fallthrough
	case formatTable, formatJSON, formatLines:
		return nil
	}
	return usage("use -o table, wide, json or jsonl", "there is no output %q", s.output)
}

// unknownCommand refuses arguments where a verb is expected.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	next := fmt.Sprintf("run `%s --help` for the list", c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		next = fmt.Sprintf("did you mean `%s %s`? `%s --help` has the list", c.CommandPath(),
			strings.Join(near, "`, `"), c.CommandPath())
	}
	return &problem{code: exitUsage, what: fmt.Sprintf("there is no command %q", args[0]),
		err: fmt.Errorf("`%s` has no such verb", c.CommandPath()), next: next}
}

// flagError is about a flag that cannot be read.
func flagError(c *cobra.Command, err error) error {
	next := fmt.Sprintf("run `%s --help` for its flags", c.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := config.Near(unknown.GetSpecifiedName(), known); near != "" {
			next = fmt.Sprintf("did you mean --%s? `%s --help` has the list", near, c.CommandPath())
		}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalid.Unwrap()
		if number, ok := errors.AsType[*strconv.NumError](err); ok {
			err = fmt.Errorf("%q: %w", number.Num, number.Err)
		}
		err = fmt.Errorf("--%s: %w", invalid.GetFlag().Name, err)
	}
	return usage(next, "%w", err)
}

// count checks the number of arguments; most < 0 is no bound.
func count(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return usage(fmt.Sprintf("run `%s --help` for examples", c.CommandPath()), "`%s` takes %s; %d were given",
			c.CommandPath(), what, len(args))
	}
}
