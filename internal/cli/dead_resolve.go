package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) deadResolve() *cobra.Command {
	var note string
	c := s.deadMark(operate.KindResolve, "Mark dead letters as resolved",
		`Marks dead letters as resolved, by id or selected by flags: they have been dealt with
in another way, and nothing needs to be done about them. They stay in the store,
for `+"`pawl dead ls --resolved`"+` and to be replayed or discarded later; other commands
select open ones only, and figures, checks and alerts count only those. Where the topic
parks, a resolved letter still parks what follows it.

--note says what was done. Resolving again replaces the note; `+"`pawl dead reopen`"+` takes
the mark away. It is an operation, like a replay: see `+"`pawl operations`"+`.`,
		`  pawl dead resolve --topic mail --reason "no such address" --dry-run
  pawl dead resolve --topic mail --reason "no such address" --note "customers who left"`, &note)
	c.Flags().StringVar(&note, "note", "", "what was done about them")
	return c
}

func (s *session) deadReopen() *cobra.Command {
	return s.deadMark(operate.KindReopen, "Take the mark off resolved dead letters",
		`Makes resolved dead letters open again, by id or selected by flags.`,
		`  pawl dead reopen --topic mail --dry-run
  pawl dead reopen --all`, new(string))
}

// deadMark is a command that gives dead letters a mark, or takes it away.
func (s *session) deadMark(kind, short, long, examples string, note *string) *cobra.Command {
	var f deadFilter
	var all bool
	c := &cobra.Command{
		Use: kind + " [ID…]", Short: short, Args: count(0, -1, "ids"), Long: long, Example: examples,
		RunE: func(c *cobra.Command, ids []string) error {
			sel, err := f.selection(c, ids, all)
			if err != nil {
				return err
			}
			if kind == operate.KindReopen {
				sel.Filter.Resolved = new(true)
			}
			return s.operate(c.Context(), sel, operation{kind: kind, why: *note})
		},
	}
	f.add(c.Flags(), "reason")
	c.Flags().BoolVar(&all, "all", false, "all of the store")
	return c
}
