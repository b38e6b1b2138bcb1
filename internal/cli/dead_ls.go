package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadLs() *cobra.Command {
	var f deadFilter
	var by string
	c := &cobra.Command{
		Use: "ls", Short: "List dead letters, or count them by cause", Args: count(0, 0, "flags only"),
		Long: `Lists dead letters, the oldest death first. With --group-by it counts them instead: by
fingerprint, which is the same for failures with one cause, by kind of error, by
topic, by the hour of death, or by two of them. By fingerprint, a table also draws the
last 24 hours, and JSON counts them in by_hour. Letters that are marked as resolved are
listed with --resolved.

A table shows the first 100; -o json and -o jsonl have all, unless --limit says
otherwise.`,
		Example: `  pawl dead ls
  pawl dead ls --group-by fingerprint
  pawl dead ls --group-by fingerprint,hour --search timeout
  pawl dead ls --topic mail --reason timeout --since 2h -o jsonl
  pawl dead ls --resolved`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			names, err := groupNames(by)
			if err != nil {
				return err
			}
			d, err := part[store.DeadLetters](c.Context(), s, "list dead letters")
			if err != nil {
				return err
			}
			if by != "" {
				return s.groupDead(c.Context(), d, f.filter(), names)
			}
			if s.output == formatTable && !c.Flags().Changed("limit") {
				f.limit = tableRows
			}
			return s.listDead(c.Context(), d, f.filter())
		},
	}
	f.add(c.Flags(), "reason")
	c.Flags().StringVar(&by, "group-by", "",
		"count by fingerprint, kind, topic, hour, attr:NAME (a fact of the failure), or two of them: fingerprint,hour")
	return c
}

func (s *session) listDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter) error {
	columns := []string{"ID", "TOPIC", "KEY", "DEAD AT", ">ATTEMPTS", "KIND", "FINGERPRINT", "REASON"}
	if *f.Resolved {
		columns = append(columns, "RESOLVED AT", "BY", "NOTE")
	}
	l := s.list(columns...)
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "list dead letters")
		}
		m := operate.FormDeadLetter(&r)
		cells := []string{m.ID, m.Topic, cut(keyCell(&m.Message), 24), when(m.DeadAt), number(deliveries(&m)), m.Kind,
			m.Fingerprint, firstLine(m.Reason)}
		if by := m.Resolved; by != nil {
			cells = append(cells, when(by.At), by.By, firstLine(by.Note))
		}
		if !l.add(m, cells...) {
			break
		}
	}
	if s.output == formatTable && l.n == tableRows {
		s.note("these are the first %d; --limit 0 lists all, --group-by counts", tableRows)
	}
	return l.end("no such dead letters")
}

// deliveries is how often a dead letter was tried. A rescue is no attempt, so one
// that killed its workers may have none, and yet was delivered.
func deliveries(d *operate.DeadLetter) int {
	if d.Attempt == 0 || d.Kind == string(pawl.KindRescue) {
		return d.Attempt + d.Rescues
	}
	return d.Attempt
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return cut(oneLine(line), 80)
}
