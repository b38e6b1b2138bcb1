package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

const completeTime = 2 * time.Second // nobody waits for longer with a finger on the key

// completeArguments lets a shell complete the arguments of the commands below c: topics, workers, ids of messages and
// of dead letters, as their usage names them, and the values of flags.
func (s *session) completeArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		s.completeArguments(sub)
	}
	if c.Flags().Lookup("topic") != nil {
		_ = c.RegisterFlagCompletionFunc("topic", s.complete(operate.TopicsLike)) // it fails for no flag that is there
	}
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			kind, _ := pflag.UnquoteUsage(f)
			if words, files := operate.FlagWords(c.CommandPath(), f.Name, kind); !files {
				complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
				_ = c.RegisterFlagCompletionFunc(f.Name, complete) // --topic has one
			}
		})
	}
	if c.ValidArgsFunction != nil || len(c.ValidArgs) > 0 {
		return
	}
	var find func(context.Context, store.Store, string) []string
	switch _, arguments, _ := strings.Cut(c.Use, " "); {
	case strings.Contains(arguments, "TOPIC"):
		find = operate.TopicsLike
	case strings.Contains(arguments, "WORKER"):
		find = operate.WorkersLike
	case arguments == "NAME" && strings.HasPrefix(c.CommandPath(), "pawl pipelines "):
		find = operate.PipelinesLike
	case strings.Contains(arguments, "ID") && strings.HasPrefix(c.CommandPath(), "pawl dead "):
		find = operate.DeadLike
	case strings.Contains(arguments, "ID") && !strings.HasPrefix(c.CommandPath(), "pawl operations "):
		find = operate.MessagesLike
	default:
		return
	}
	complete := s.complete(find)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if !strings.Contains(c.Use, "…") && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, begun)
	}
}

// complete makes a completion of what find finds in the store.
func (s *session) complete(find func(context.Context, store.Store, string) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeTime)
		defer cancel()
		opened, err := s.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return find(ctx, opened, begun), cobra.ShellCompDirectiveNoFileComp
	}
}
