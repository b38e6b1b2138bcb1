package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadDiscard() *cobra.Command {
	var f deadFilter
	var all bool
	var why string
	c := &cobra.Command{
		Use: "discard [ID…]", Short: "Remove dead letters for good", Args: count(0, -1, "ids"),
		Long: `Removes dead letters for good, by id or selected by flags. It asks before, unless
--yes is given; --dry-run prints the plan. --reason says why they may go, and is
printed with the result; to select by their own reason there is --matching.`,
		Example: `  pawl dead discard --topic mail --dry-run
  pawl dead discard --topic mail --matching "no such address" --reason "customers who left" --yes`,
		RunE: func(c *cobra.Command, ids []string) error {
			sel, err := f.selection(c, ids, all)
			if err != nil {
				return err
			}
			return s.operate(c.Context(), sel, operation{verb: "discard", done: "discarded", confirm: true, why: why,
				each: func(ctx context.Context, d store.DeadLetters, ids []string) (map[string]error, error) {
					return d.Purge(ctx, ids...)
				}})
		},
	}
	f.add(c.Flags(), "matching")
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the store")
	c.Flags().StringVar(&why, "reason", "", "why they may go")
	return c
}
