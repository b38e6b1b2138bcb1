package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) topicsPause() *cobra.Command {
	var d duration
	var reason string
	c := &cobra.Command{
		Use: "pause TOPIC", Short: "Stop handing out the messages of a topic", Args: count(1, 1, "one topic"),
		Long: `Stops claims of a topic in every process, within two seconds; what is leased
continues. Messages can be appended as before. The pause lasts until the topic is
resumed, or as long as --for says.`,
		Example: `  pawl topics pause mail --reason "the server is being moved"
  pawl topics pause mail --for 10m`,
		RunE: func(c *cobra.Command, args []string) error {
			topics, err := part[store.Topics](c.Context(), s, "pause a topic")
			if err != nil {
				return err
			}
			if _, err := topics.Topic(c.Context(), args[0]); err != nil {
				return cannot(err, "pause topic %s", args[0])
			}
			if err := s.notMoved(c.Context(), args[0], "pause"); err != nil {
				return err
			}
			if s.dryRun {
				s.note("would pause topic %s", args[0])
				return nil
			}
			if err := topics.Pause(c.Context(), args[0], time.Duration(d), s.who(), reason); err != nil {
				return cannot(err, "pause topic %s", args[0])
			}
			if err := s.auditTopic(c, "pause", args[0], reason); err != nil {
				return err
			}
			return s.topicNow(c, topics, args[0], "is paused")
		},
	}
	c.Flags().Var(&d, "for", "resume automatically after this long")
	c.Flags().StringVar(&reason, "reason", "", "the reason, for other operators")
	return c
}

func (s *session) topicsResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume TOPIC", Short: "End a pause", Args: count(1, 1, "one topic"),
		Long:    "Ends the pause of a topic. One that is not paused stays as it is.",
		Example: `  pawl topics resume mail`,
		RunE: func(c *cobra.Command, args []string) error {
			topics, err := part[store.Topics](c.Context(), s, "resume a topic")
			if err != nil {
				return err
			}
			if _, err := topics.Topic(c.Context(), args[0]); err != nil {
				return cannot(err, "resume topic %s", args[0])
			}
			if err := s.notMoved(c.Context(), args[0], "resume"); err != nil {
				return err
			}
			if s.dryRun {
				s.note("would resume topic %s", args[0])
				return nil
			}
			if err := topics.Resume(c.Context(), args[0]); err != nil {
				return cannot(err, "resume topic %s", args[0])
			}
			if err := s.auditTopic(c, "resume", args[0], ""); err != nil {
				return err
			}
			return s.topicNow(c, topics, args[0], "is not paused")
		},
	}
}

// topicNow prints a topic as it is after a change.
func (s *session) topicNow(c *cobra.Command, topics store.Topics, name, what string) error {
	stats, err := topics.Stats(c.Context(), name)
	if err != nil || len(stats) == 0 {
		return cannot(err, "look at topic %s", name)
	}
	t := operate.FormTopic(&stats[0])
	return s.one(t, func(w io.Writer) { fmt.Fprintf(w, "topic %s %s\n", oneLine(name), what) })
}

// auditTopic writes down a change of a topic, with the flags that say what.
func (s *session) auditTopic(c *cobra.Command, verb, topic, why string) error {
	return s.audit(c.Context(), operate.AuditEntry{Action: "topics " + verb, Target: topic, Reason: why,
		Change: ownFlags(c),
		Count:  1, Result: operate.AuditResult{Done: 1}})
}

// ownFlags are the flags of a command that were given, but for the reason.
func ownFlags(c *cobra.Command) string {
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "reason" {
			flags = append(flags, f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(flags, " ")
}
