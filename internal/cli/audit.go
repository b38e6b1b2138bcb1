package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

// audit writes down what this command has done.
func (s *session) audit(ctx context.Context, a operate.AuditEntry) error {
	a.Who = s.who()
	err := operate.Audit(context.WithoutCancel(ctx), s.opened, a)
	return cannot(err, "record this in the audit: %s %s", a.Action, a.Target)
}

func (s *session) auditCommand() *cobra.Command {
	return noun("audit", "What was changed, by whom, and why",
		`Every command that changes something but sends no message leaves an entry: who,
when, what it was about, and what became of it.`, s.auditLs())
}

func (s *session) auditLs() *cobra.Command {
	f := operate.AuditFilter{Limit: tableRows}
	since := point{back: true}
	c := &cobra.Command{
		Use: "ls", Short: "List what was changed", Args: count(0, 0, "flags only"),
		Long: `Lists what was changed, the oldest entry first: replays, discards, edits and imports
of dead letters, cancelled messages, pauses and settings of topics, and actions on
operations. An operation has one entry, which says how far it is; so does every dead
letter that it edited, with the original body.`,
		Example: `  pawl audit ls
  pawl audit ls --since 24h --kind replay -o jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usage("use 0 for no limit", "--limit is %d", f.Limit)
			}
			if s.output != formatTable && !c.Flags().Changed("limit") {
				f.Limit = 0
			}
			f.Since = since.Time
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			all, err := operate.ListAudit(c.Context(), opened, f)
			if err != nil {
				return cannot(err, "list the audit")
			}
			l := s.list("AT", "WHO", "ACTION", "ABOUT", ">COUNT", ">DONE", ">REFUSED", "TOOK", "REASON", "OPERATION")
			for _, a := range all {
				about := a.Target
				if a.Filter != nil {
					if about = describeFilter(a.Filter); a.Target != "" {
						about += " → " + a.Target
					}
				}
				action := a.Action
				if a.Status != "" && a.Status != operate.Done {
					action = fmt.Sprintf("%s (%s)", a.Action, a.Status)
				}
				l.add(a, when(a.At), a.Who, action, cut(about, 60), number(a.Count), number(a.Result.Done),
					number(a.Result.Refused),
					age(time.Duration(a.Seconds*float64(time.Second))), cut(a.Reason, 40), a.OperationID)
			}
			if f.Action != "" || !f.Since.IsZero() {
				return l.end("no such entries")
			}
			return l.end("nothing was changed yet")
		},
	}
	c.Flags().Var(&since, "since", "only what was done then or later; or how long ago")
	c.Flags().StringVar(&f.Action, "kind", "", "only this action, such as replay, discard or edit")
	c.Flags().IntVar(&f.Limit, "limit", f.Limit, "at most this many, the latest (0: all; -o json and jsonl have all)")
	return c
}
