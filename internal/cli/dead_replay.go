package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) deadReplay() *cobra.Command {
	var f deadFilter
	var e edits
	var all, keep bool
	var per rate
	var to string
	c := &cobra.Command{
		Use: "replay [ID…]", Short: "Append dead letters again", Args: count(0, -1, "ids"),
		Long: `Appends dead letters again, to the tail of their lane, with their id and history;
attempts are counted from zero again, unless --keep-attempts is given: then a message that used
up its attempts gets one more. It replays dead letters named by id or selected by
flags, the oldest death first. Those that die again meanwhile are not replayed again.

With --dry-run it prints the plan: how many, for which keys, the oldest, and what to
watch out for. Some may be refused because another message has taken their unique key
since; then the exit code is 3.

A replay is an operation: it has an id, and each letter is replayed once, even if this
process is killed. Ctrl-C pauses it (exit code 4); ` + "`pawl operations`" + ` shows, pauses,
cancels and resumes it from anywhere.

` + editHelp,
		Example: `  pawl dead replay --topic mail --dry-run
  pawl dead replay --topic mail --reason timeout --rate 50/s
  pawl dead replay --fingerprint 0123456789ab --to mail-again
  pawl dead replay --topic mail --keep-attempts
  pawl dead replay --topic mail --search '"to"' --edit '.to = "postmaster"'`,
		RunE: func(c *cobra.Command, ids []string) error {
			sel, err := f.selection(c, ids, all)
			if err != nil {
				return err
			}
			if to != "" {
				if err := pawl.ValidTopic(to); err != nil {
					return cannot(err, "replay to topic %s", to)
				}
			}
			if err := e.check(sel.IDs); err != nil {
				return err
			}
			return s.operate(c.Context(), sel, operation{kind: operate.KindReplay, to: to,
				perSecond: per.perSecond, edits: e, keep: keep})
		},
	}
	f.add(c.Flags(), "reason")
	e.add(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "all open dead letters of the store")
	c.Flags().Var(&per, "rate", "no faster than this, such as 50/s")
	c.Flags().BoolVar(&keep, "keep-attempts", false, "count on from the attempts that they had")
	c.Flags().StringVar(&to, "to", "", "append them to this `TOPIC` instead")
	return c
}

// editHelp is what --edit is about.
var editHelp = fmt.Sprintf(`--edit changes bodies that are JSON by a program of jq, which makes one value of
one value: '.to = "x"', 'del(.debug)', '.items |= map(select(.ok))'. Numbers that
it does not compute keep their digits; names within an object come in order. A
body that is no JSON is refused, and stays dead. Who edited, when, and the hash of
the original are in headers (%s …), the original itself is in the audit,
up to 64 KiB.`, operate.HeaderEditedBy)
