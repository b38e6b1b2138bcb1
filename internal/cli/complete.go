package cli

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

const (
	mostCompleted = 50
	completeTime  = 2 * time.Second // nobody waits for longer with a finger on the key
)

// completeArguments lets a shell complete the arguments of the commands below c: topics, ids of messages and of dead
// letters, as their usage names them.
func (s *session) completeArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		s.completeArguments(sub)
	}
	if c.ValidArgsFunction != nil || len(c.ValidArgs) > 0 {
		return
	}
	var find func(context.Context, store.Store, string) []string
	switch _, arguments, _ := strings.Cut(c.Use, " "); {
	case strings.Contains(arguments, "TOPIC"):
		find = topicsLike
	case arguments == "NAME" && strings.HasPrefix(c.CommandPath(), "pawl pipelines "):
		find = pipelinesLike
	case strings.Contains(arguments, "ID") && strings.HasPrefix(c.CommandPath(), "pawl dead "):
		find = deadLike
	case strings.Contains(arguments, "ID") && !strings.HasPrefix(c.CommandPath(), "pawl operations "):
		find = messagesLike
	default:
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if !strings.Contains(c.Use, "…") && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeTime)
		defer cancel()
		opened, err := s.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return find(ctx, opened, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func topicsLike(ctx context.Context, opened store.Store, begun string) (names []string) {
	topics, ok := store.As[store.Topics](opened)
	if !ok {
		return nil
	}
	stats, _ := topics.Stats(ctx)
	for i := range stats {
		if strings.HasPrefix(stats[i].Name, begun) {
			names = append(names, stats[i].Name)
		}
	}
	return names
}

func pipelinesLike(ctx context.Context, opened store.Store, begun string) (names []string) {
	all, _ := operate.Pipelines(ctx, opened)
	for i := range all {
		if strings.HasPrefix(all[i].Name, begun) {
			names = append(names, all[i].Name)
		}
	}
	return names
}

func messagesLike(ctx context.Context, opened store.Store, begun string) []string {
	l, ok := store.As[store.Inspector](opened)
	if !ok {
		return nil
	}
	return append(idsLike(l.List(ctx, store.Filter{}), begun), deadLike(ctx, opened, begun)...)
}

func deadLike(ctx context.Context, opened store.Store, begun string) []string {
	d, ok := store.As[store.DeadLetters](opened)
	if !ok {
		return nil
	}
	return idsLike(d.Dead(ctx, store.DeadFilter{Brief: true}), begun)
}

func idsLike(records iter.Seq2[store.Record, error], begun string) (ids []string) {
	for r, err := range records {
		if err != nil || len(ids) == mostCompleted {
			break
		}
		if strings.HasPrefix(r.ID, begun) {
			ids = append(ids, r.ID+"\t"+r.Topic)
		}
	}
	return ids
}
