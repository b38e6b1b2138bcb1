package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadReport() *cobra.Command {
	since := duration(7 * 24 * time.Hour)
	var topic string
	c := &cobra.Command{
		Use: "report", Short: "Count dead letters by cause, key and day", Args: count(0, 0, "flags only"),
		Long: `Counts the dead letters of the last days: by cause, by key, and by day. If one key has
more than half of them, the cause is probably a customer or a device, not the program.`,
		Example: `  pawl dead report
  pawl dead report --since 24h --topic mail -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := part[store.DeadLetters](c.Context(), s, "report on dead letters")
			if err != nil {
				return err
			}
			r, err := operate.ReportDead(c.Context(), d, store.DeadFilter{Topic: topic,
				Since: time.Now().Add(-time.Duration(since)), Brief: true})
			if err != nil {
				return cannot(err, "report on dead letters")
			}
			return s.one(r, r.Describe)
		},
	}
	c.Flags().Var(&since, "since", "how far back to count")
	c.Flags().StringVar(&topic, "topic", "", "of this topic only")
	return c
}
