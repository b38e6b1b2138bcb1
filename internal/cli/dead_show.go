package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter with all its attempts", Args: count(1, 1, "one id"),
		Long: `Shows a dead letter: the message, what killed it, and every attempt with the rule
that decided.`,
		Example: `  pawl dead show $(pawl dead ls -o json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | head -1)`,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := part[store.Looker](c.Context(), s, "show a dead letter")
			if err != nil {
				return err
			}
			r, err := i.Get(c.Context(), args[0])
			if err == nil && r.State != store.IsDead {
				err = &store.Error{Op: "dead letter " + args[0], Code: store.ErrNotFound,
					Err: fmt.Errorf("the message is %s", r.State), Hint: "pawl messages show " + args[0]}
			}
			if err != nil {
				return cannot(err, "show dead letter %s", args[0])
			}
			d := operate.FormDeadLetter(&r)
			return s.one(d, func(w io.Writer) { describeDead(w, &d) })
		},
	}
}
