package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/open"
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
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := s.openAs(c.Context(), open.Config{AutoMigrate: s.autoMigrate, Existing: true})
			if err != nil {
				return err
			}
			all, err := operate.Pipelines(c.Context(), opened)
			if err != nil {
				return cannot(err, "list pipelines")
			}
			l := s.list("PIPELINE", "KIND", "STATE", ">WAITING", ">LEASED", ">DEAD", ">OLDEST", "LAST SUCCESS", "WHY")
			for _, p := range all {
				oldest := time.Duration(p.OldestWaitingSeconds * float64(time.Second))
				l.add(p, p.Name, p.Kind, p.State, number(p.Waiting), number(p.Leased), number(p.Dead),
					age(oldest), whenever(p.LastSuccessAt), p.Why)
			}
			return l.end("no daemon has run a pipeline on this store")
		},
	}
}

func (s *session) pipelinesPause() *cobra.Command {
	var d duration
	var reason string
	c := &cobra.Command{
		Use: "pause NAME", Short: "Pause all topics of a pipeline", Args: count(1, 1, "one pipeline"),
		Long:    "Pauses every topic of a pipeline in every process; what is running finishes. It never asks for confirmation.",
		Example: `  pawl pipelines pause search --for 10m --reason "the index is being moved"`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.onPipeline(c.Context(), "pause", args[0], reason, func(on store.Store) error {
				return operate.PausePipeline(c.Context(), on, args[0], time.Duration(d), s.who(), reason)
			})
		},
	}
	c.Flags().Var(&d, "for", "resume automatically after this long")
	c.Flags().StringVar(&reason, "reason", "", "the reason, for other operators")
	return c
}

func (s *session) pipelinesResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME", Short: "End the pause of a pipeline", Args: count(1, 1, "one pipeline"),
		Example: `  pawl pipelines resume search`,
		RunE: func(c *cobra.Command, args []string) error {
			return s.onPipeline(c.Context(), "resume", args[0], "", func(on store.Store) error {
				return operate.ResumePipeline(c.Context(), on, args[0])
			})
		},
	}
}

// onPipeline changes a pipeline, and writes that down.
func (s *session) onPipeline(ctx context.Context, action, name, reason string, change func(store.Store) error) error {
	opened, err := s.openAs(ctx, open.Config{AutoMigrate: s.autoMigrate, Existing: true})
	if err != nil {
		return err
	}
	if s.dryRun {
		s.note("would %s pipeline %s", action, name)
		return nil
	}
	if err := change(opened); err != nil {
		return cannot(err, "%s pipeline %s", action, name)
	}
	entry := operate.AuditEntry{Who: s.who(), Action: "pipeline " + action, Target: name, Count: 1, Reason: reason,
		Result: operate.AuditResult{Done: 1}}
	if err := operate.Audit(ctx, opened, entry); err != nil {
		return cannot(err, "write the audit")
	}
	s.note("pipeline %s: %s", name, map[string]string{"pause": "paused", "resume": "resumed"}[action])
	return nil
}
