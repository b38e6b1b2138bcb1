package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Which global flags the help of a command leaves out, because the command has no use for them. All commands take all
// of them, so that a script can give each command the same ones.

// storeless are the commands that open no store.
var storeless = []string{"pawl version", "pawl completion", "pawl stores", "pawl config schema", "pawl chaos files",
	"pawl chaos llm", "pawl wecom sim", "pawl forward sim", "pawl crawl try"}

// looking are the verbs that change nothing.
var looking = []string{"check", "completion", "doctor", "explain", "files", "get", "grants", "health", "history",
	"hosts", "llm", "ls", "next", "peek", "report", "runs", "schema", "show", "sim", "status", "stores", "try", "verify",
	"version"}

// asking are the commands that --yes answers.
var asking = []string{"pawl cancel", "pawl reclaim", "pawl skip", "pawl messages run", "pawl dead", "pawl migrate down",
	"pawl topics rm", "pawl forward rules rm"}

// takes reports whether a command has a use for a global flag.
func takes(c *cobra.Command, flag string) bool {
	under := func(paths []string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(c.CommandPath()+" ", p+" ") })
	}
	switch looks := slices.Contains(looking, c.Name()); {
	case !c.HasParent():
		return true
	case !c.Runnable(), c.HasSubCommands() && len(formFlags(c.LocalNonPersistentFlags())) == 0:
		return false // it is a text, or its verbs say what they take
	case flag == "store", flag == "mirror", flag == "auto-migrate", flag == "config":
		return !under(storeless)
	case flag == "dry-run":
		return !looks
	case flag == "yes":
		return !looks && under(asking)
	}
	return true
}

// onlyItsFlags makes the help of each command show the global flags that it takes.
func onlyItsFlags(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !takes(c, f.Name) })
		help(c, args)
	})
}
