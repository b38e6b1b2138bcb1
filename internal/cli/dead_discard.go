package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) deadDiscard() *cobra.Command {
	var f deadFilter
	var all bool
	var per rate
	var why string
	c := &cobra.Command{
		Use: "discard [ID…]", Short: "Remove dead letters for good", Args: count(0, -1, "ids"),
		Long: `Removes dead letters for good, by id or selected by flags. It asks first, unless --yes
is given; --dry-run prints the plan. --reason says why they are discarded: it does not
select, it is stored in the audit. To select by their own reason, use --matching.

A discard is an operation, like a replay: see ` + "`pawl operations`" + `.`,
		Example: `  pawl dead discard --topic mail --dry-run
  pawl dead discard --topic mail --matching "no such address" --reason "customers who left" --yes`,
		RunE: func(c *cobra.Command, ids []string) error {
			sel, err := f.selection(c, ids, all)
			if err != nil {
				return err
			}
			return s.operate(c.Context(), sel, operation{kind: operate.KindDiscard, confirm: true, why: why,
				perSecond: per.perSecond})
		},
	}
	f.add(c.Flags(), "matching")
	c.Flags().BoolVar(&all, "all", false, "all open dead letters of the store")
	c.Flags().Var(&per, "rate", "no faster than this, such as 50/s")
	c.Flags().StringVar(&why, "reason", "", "the reason, for the audit")
	return c
}
